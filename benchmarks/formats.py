"""Rows per second of reading, converting and writing, beside pyarrow's own CSV reader and writer.

    python benchmarks/formats.py [rows]

Prints one line per step: the best of several rounds on one core, and the ratio to the time that
`pyarrow.csv.read_csv` takes with declared types.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import columns, reading, splits
from spark_jobs.formats.csv.options import CsvRead, CsvWrite
from spark_jobs.formats.csv.read import CsvReader
from spark_jobs.formats.csv.write import CsvWriter
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.json.options import JsonLayout, JsonRead, JsonWrite
from spark_jobs.formats.json.read import JsonReader
from spark_jobs.formats.json.write import JsonWriter
from spark_jobs.scan import files

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = {
    "id": types.INT,
    "customer": types.STRING,
    "day": types.DATE,
    "price": types.FLOAT,
    "note": types.STRING,
    "paid": types.BOOL,
    "total": types.INT,
}
ROUNDS = 5


def generate(path: Path, rows: int, *, quoted: bool = False, bad: int = 0) -> None:
    """Orders, with a quoted note in each when asked, and every `bad`-th price unreadable."""
    mark = '"' if quoted else ""
    with path.open("w") as out:
        out.write(",".join(COLUMNS) + "\n")
        for i in range(rows):
            price = "n/a" if bad and i % bad == 0 else f"{i % 1000}.{i % 100:02}"
            day = f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}"
            out.write(f"{i},cust{i % 5000},{day},{price},{mark}note {i % 977}{mark},true,{i * 7}\n")


def best(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def read_typed(path: Path) -> pa.Table:
    kinds = {name: values.arrow_type(static) for name, static in COLUMNS.items()}
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(use_threads=False),
        convert_options=csv.ConvertOptions(column_types=kinds),
    )


def read_blocks(path: Path, live: frozenset[str] | None = None, *, texts: bool = False) -> list[pa.RecordBatch]:
    file = files.describe(str(path), path.name)
    reader = CsvReader(CsvRead())
    scan = reader.plan(tuple(COLUMNS), [file])
    want = Reading(
        tuple(SourceColumn(name, static) for name, static in COLUMNS.items()), live=live, failure_texts=texts
    )
    batches = []
    for split in splits.plan(scan.files):
        outcome = reading.SplitOutcome()
        batches += [block.batch for block in reader.read(split, scan.files[0], want, outcome)]
        assert outcome.is_consistent
    return batches


def read_lines(path: Path) -> list[pa.RecordBatch]:
    """The same records from NDJSON; the kinds of its values decide the path through the reader."""
    options = JsonRead(format=JsonLayout.NDJSON)
    file = files.describe(str(path), path.name)
    reader = JsonReader(options)
    scan = reader.plan(tuple(COLUMNS), [file], columns.OnUnmapped.DROP)
    want = Reading(tuple(SourceColumn(name, static) for name, static in COLUMNS.items()))
    return [
        block.batch
        for split in splits.plan(scan.files)
        for block in reader.read(split, scan.files[0], want, reading.SplitOutcome())
    ]


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    schema = Schema(tuple(Column(name, static) for name, static in COLUMNS.items()))
    with tempfile.TemporaryDirectory() as folder:
        plain, quoted, bad = (Path(folder) / f"{name}.csv" for name in ("plain", "quoted", "bad"))
        generate(plain, rows)
        generate(quoted, rows, quoted=True)
        generate(bad, rows, bad=1000)
        base = best(lambda: read_typed(plain))

        def show(name: str, seconds: float) -> None:
            print(f"{name:44} {seconds:7.3f} s  {rows / seconds / 1e6:6.2f} M rows/s  {seconds / base:5.2f} x")

        print(f"{rows} rows, {plain.stat().st_size / 1e6:.0f} MB")
        show("pyarrow.csv typed read", base)
        show("read and convert", best(lambda: read_blocks(plain)))
        show("read and convert, 2 of 7 columns live", best(lambda: read_blocks(plain, frozenset({"id", "total"}))))
        show("read and convert, quoted cells", best(lambda: read_blocks(quoted)))
        show("read and convert, 0.1 % bad, with texts", best(lambda: read_blocks(bad, texts=True)))
        batches = read_blocks(plain)
        whole = pa.Table.from_batches(batches)
        lines = Path(folder) / "lines.ndjson"
        with lines.open("wb") as out:
            for batch in batches:
                out.write(JsonWriter(schema, JsonWrite(format=JsonLayout.NDJSON)).encode(batch).data)
        show("read and convert NDJSON", best(lambda: read_lines(lines)))
        show("pyarrow.csv write", best(lambda: csv.write_csv(whole, Path(folder) / "out.csv")))
        for name, writer in (
            ("write CSV", CsvWriter(schema, CsvWrite())),
            ("write NDJSON", JsonWriter(schema, JsonWrite(format=JsonLayout.NDJSON))),
        ):
            show(name, best(lambda writer=writer: [writer.encode(batch) for batch in batches]))  # type: ignore[misc]


if __name__ == "__main__":
    main()
