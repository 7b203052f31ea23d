"""Megabytes that one core reads and writes in a second, of each format.

    python benchmarks/formats.py [--rows 500000] [format ...]

The tasks of two pipelines run in this process, one after another and without Spark: one reads and converts each record
and writes none, the other writes each of them in the format again. Time is processor time. The time of writing is the
difference between the two. The start of a run, measured with an empty file, does not count.
`benchmarks/file_formats.py` measures whole runs on all cores.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import duckdb

from benchmarks import task
from spark_jobs import plan
from spark_jobs.execute import identity
from spark_jobs.execute.run import executor
from spark_jobs.plan.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable

_COLUMNS = "{id: int, customer: string, day: date, price: float, note: string, paid: bool, total: int}"
_QUERY = """
select range as id, 'cust' || (range % 5000) as customer, date '2024-01-01' + (range % 365)::int as day,
    (range % 100000) / 100.0::double as price, 'note ' || (range % 977) as note, range % 3 = 0 as paid,
    range * 7 as total
from range({rows})
"""
_POSITIONS = """{fields: [
    {name: id, type: int, start: 0, width: 9}, {name: customer, type: string, start: 9, width: 10},
    {name: day, type: date, start: 19, width: 10}, {name: price, type: float, start: 29, width: 9},
    {name: note, type: string, start: 38, width: 9}, {name: paid, type: bool, start: 47, width: 5},
    {name: total, type: int, start: 52, width: 10}]}"""
_PIPELINE = """
pipeline: {{name: formats}}
nodes:
  - type: source
    name: s
    config: {{type: {name}, path: {path}, schema: {columns}{source}}}
  - type: transform
    name: kept
    input: s
    config: {{cxl: 'filter {condition}'}}
  - {{type: output, name: o, input: kept, config: {{type: {written}}}}}
"""
_COUNTED = "csv, path: out.csv"


@dataclass(frozen=True)
class Case:
    """A format.

    Args:
        source: the configuration of the source without its columns.
        output: the configuration of the output.
        write: writes a file of so many records; None leaves that to the output, from CSV.
        columns: the columns that the source declares.
        nothing: a filter that no record passes, although no statistics show it.
    """

    source: str = ""
    output: str = ""
    write: Callable[[Path, int], None] | None = None
    columns: str = _COLUMNS
    nothing: str = "id % 7 == 9"


def _csv(path: Path, rows: int) -> None:
    duckdb.sql(f"copy ({_QUERY.format(rows=rows)}) to '{path}' (format csv, header)")


def _x12(path: Path, rows: int) -> None:
    """Claims of two segments each, a hundred to a transaction set."""
    with path.open("w") as file:
        file.write(f"ISA*{'*'.join(_ISA)}*:~\nGS*HC*A*B*20260501*0900*1*X*005010X222A1~\n")
        sets = range(0, max(rows // 2, 1), 100)
        for number, first in enumerate(sets, 1):
            claims = [
                f"CLM*A-{i}*{i % 9999}.5***11:B:1~\nNM1*85*2*CLINIC {i % 977}~\n" for i in range(first, first + 100)
            ]
            file.write(f"ST*837*{number:04}~\n{''.join(claims)}SE*202*{number:04}~\n")
        file.write(f"GE*{len(sets)}*1~\nIEA*1*000000042~\n")


def _edifact(path: Path, rows: int) -> None:
    """Orders of two segments a line, a hundred to a message."""
    with path.open("w") as file:
        file.write("UNB+UNOC:3+A+B+260501:0930+A42'\n")
        messages = range(0, max(rows // 2, 1), 100)
        for number, first in enumerate(messages, 1):
            lines = [f"LIN+{i}++{i * 7}:EN'\nIMD+F++:::NOTE {i % 977}'\n" for i in range(first, first + 100)]
            file.write(f"UNH+{number}+ORDERS:D:96A:UN'\n{''.join(lines)}UNT+202+{number}'\n")
        file.write(f"UNZ+{len(messages)}+A42'\n")


_ISA = ["00", " " * 10, "00", " " * 10, "ZZ", "A".ljust(15), "ZZ", "B".ljust(15)]
_ISA += ["260501", "0900", "U", "00501", "000000042", "0", "P"]
_X12 = ", ".join(f'"{element}"' for element in (*_ISA, ":"))
_ELEMENTS = "e01: string, e02: string, e03: string, e04: string, e05: string, e06: string"
CASES = {
    "csv": Case(write=_csv),
    "json": Case(output=", options: {format: ndjson}"),
    "json array": Case(),
    "xml": Case(", options: {record_path: Root/Record}"),
    "fixed_width": Case(f", format_schema: {_POSITIONS}", f", schema: {_POSITIONS}"),
    "x12": Case(
        output=f', exclude: [set_ref], options: {{interchange: [{_X12}], group_header: [HC, A, B, "20260501", "0900",'
        ' "1", X, "005010X222A1"], set_type: "837"}',
        write=_x12,
        columns=f"{{seg_id: string, set_ref: string, set_type: string, {_ELEMENTS}}}",
        nothing='seg_id == "none"',
    ),
    "edifact": Case(
        output=', options: {interchange: ["UNOC:3", A, B, "260501:0930", A42]}',
        write=_edifact,
        columns=f"{{seg_id: string, msg_ref: string, msg_type: string, {_ELEMENTS}}}",
        nothing='seg_id == "none"',
    ),
    "parquet": Case(),
    "avro": Case(),
}  # fmt: skip


def processor_seconds(folder: Path, path: str, name: str, case: Case, written: str, condition: str) -> float:
    """Run a pipeline over a file of the folder."""
    pipeline = folder / "pipeline.yaml"
    texts = {"path": path, "columns": case.columns, "source": case.source, "condition": condition, "written": written}
    pipeline.write_text(_PIPELINE.format(name=name, **texts))
    options = RunOptions(force=True, threads=1)
    with task.without_spark(), redirect_stdout(io.StringIO()):
        loaded = plan.load(pipeline, options)
        started = time.process_time()
        outcome = executor.execute(loaded, options, identity.Identity.new(None, None))
    if outcome.result.exit_code:
        raise SystemExit(f"{name}: {outcome.result.error}")
    return time.process_time() - started


def compare(title: str, rows: int) -> tuple[float, float, float]:
    """The size of a file in megabytes, and the processor seconds that reading it and writing it take."""
    name, case = title.split()[0], CASES[title]
    written = f"{name}, path: again{case.output}"
    with tempfile.TemporaryDirectory(prefix="clinker-formats-") as path:
        folder = Path(path)
        for file, count in (("small", 200), ("large", rows)):
            if case.write is not None:
                case.write(folder / file, count)
            else:
                _csv(folder / "in.csv", count)
                processor_seconds(folder, "in.csv", "csv", CASES["csv"], f"{name}, path: {file}{case.output}", "true")
        # The first runs import what all of them need.
        for _ in range(2):
            start, read, both = (
                processor_seconds(folder, file, name, case, *how)
                for file, *how in (
                    ("small", written, "true"),
                    ("large", _COUNTED, case.nothing),
                    ("large", written, "true"),
                )
            )
        return (folder / "large").stat().st_size / 1e6, read - start, both - read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("format", nargs="*", help=f"of {', '.join(CASES)}; all unless some are named")
    parser.add_argument("--rows", type=int, default=500_000)
    arguments = parser.parse_args()
    for title in arguments.format or CASES:
        size, reading, writing = compare(title, arguments.rows)
        print(
            f"{title:12} {size:6.1f} MB  reading {size / reading:7.1f} MB/s  writing {size / writing:7.1f} MB/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
