"""TPC-H in Clinker beside Spark SQL, Sail, DuckDB and Polars: whole processes in turns, results compared.

    python -m benchmarks.tpch.run --scale 1 --engine spark --engine duckdb
    python -m benchmarks.tpch.run --engine sail --python sail=/path/of/an/environment/bin/python

The tables are CSV files of `tpchgen-cli`, which are made once and kept in the folder `--data`. Queries that ask for the
first rows of a result give all of them here. `--python` names the Python of another environment, for engines that are
not in this one.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from decimal import Decimal, InvalidOperation
from pathlib import Path

from benchmarks import measure
from benchmarks.tpch.sql import TABLES

_FOLDER = Path(__file__).resolve().parent
QUERIES = sorted(path.stem for path in _FOLDER.glob("q*.yaml"))
ENGINES = ("spark", "sail", "duckdb", "polars")
_LIMIT_S = 1800.0
#: Means and quotients of Decimals have other scales elsewhere, and are rounded there.
_CLOSE = Decimal("0.00001")


def main() -> int:
    """Measure the queries of the command line; exit status 1 when results differ."""
    parser = argparse.ArgumentParser(description="Measure TPC-H beside other engines.")
    parser.add_argument("--scale", type=float, default=1.0, help="the scale factor: about GB of text (default 1)")
    parser.add_argument("--query", choices=QUERIES, action="append", help="may be repeated (default all)")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="may be repeated (default spark and duckdb)")
    parser.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH", help="the Python of an engine")
    parser.add_argument("--runs", type=int, default=3, help="rounds of each query (default 3)")
    default = Path(tempfile.gettempdir()) / "clinker-bench-data"
    parser.add_argument("--data", type=Path, default=default, help="folder that keeps the tables (default %(default)s)")
    chosen = parser.parse_args()
    pythons = dict(each.split("=", 1) for each in chosen.python)
    folder = tables(chosen.data, chosen.scale)
    programs = ("clinker", *(chosen.engine or ("spark", "duckdb")))
    print(f"{'query':<6}" + "".join(f" {'/ ' + name:>10} {'processor':>10}" for name in programs[1:]) + "  peak, MiB")
    different = False
    for query in chosen.query or QUERIES:
        runs: dict[str, list[measure.Measurement]] = {name: [] for name in programs}
        for _ in range(chosen.runs):
            with tempfile.TemporaryDirectory(prefix="clinker-bench-") as scratch:
                for name in programs:
                    runs[name].append(_run(name, query, folder, Path(scratch), pythons.get(name, sys.executable)))
                for name in programs[1:]:
                    if found := difference(Path(scratch) / "clinker", Path(scratch) / name):
                        print(f"{query}: clinker and {name} differ: {found}", file=sys.stderr)
                        different = True
        print(_line(query, runs))
    return int(different)


def tables(folder: Path, scale: float) -> Path:
    """The folder with the tables of a scale factor, which are made where they are not there yet."""
    target = folder / f"tpch-{scale:g}"
    if not target.exists():
        found = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
        if found is None:
            raise SystemExit("tpchgen-cli makes the tables, and is not here: pip install tpchgen-cli")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as made:
            subprocess.run(
                [found, "csv", "--scale-factor", f"{scale:g}", "--tables", ",".join(TABLES), "--output-dir", made],
                check=True, capture_output=True,
            )  # fmt: skip
            shutil.copytree(made, target)
    return target


def _run(name: str, query: str, folder: Path, scratch: Path, python: str) -> measure.Measurement:
    output = scratch / name
    output.mkdir()
    given = {"BENCH_TPCH": str(folder), "BENCH_OUTPUT": str(output), "PYTHONDONTWRITEBYTECODE": ""}
    command = [python, str(_FOLDER / "sql.py"), name, query]
    if name == "clinker":
        given["PYTHONPATH"] = str(_FOLDER.parent.parent)
        pipeline = str(_FOLDER / f"{query}.yaml")
        command = [python, "-m", "spark_jobs", "run", pipeline, "--allow-absolute-paths"]
    return measure.run(command, given, scratch, limit_s=_LIMIT_S)


def _line(query: str, runs: dict[str, list[measure.Measurement]]) -> str:
    seconds = {name: statistics.median(run.seconds for run in found) for name, found in runs.items()}
    processor = {name: statistics.median(run.cpu_seconds for run in found) for name, found in runs.items()}
    peaks = ", ".join(f"{name} {max(run.peak_bytes for run in found) >> 20}" for name, found in runs.items())
    ratios = "".join(
        f" {seconds['clinker'] / seconds[name]:>10.2f} {processor['clinker'] / processor[name]:>10.2f}"
        for name in runs
        if name != "clinker"
    )
    return f"{query:<6}{ratios}  {peaks}"


def difference(one: Path, other: Path) -> str | None:
    """How the results of two engines differ; None where they are the same rows, in any order."""
    mine, its = rows(one), rows(other)
    if len(mine) != len(its):
        return f"{len(mine)} rows and {len(its)}"
    for row, (left, right) in enumerate(zip(mine, its, strict=True)):
        if len(left) != len(right) or not all(map(_is_close, left, right)):
            return f"row {row}: {left} and {right}"
    return None


def rows(folder: Path) -> list[list[str | Decimal]]:
    """The rows of a result, sorted: texts, and numbers where all of a cell is one."""
    whole = folder / "result.csv"
    found: list[list[str | Decimal]] = []
    for path in [whole] if whole.exists() else sorted((folder / "result").glob("part-*.csv")):
        with path.open(encoding="utf-8", newline="") as stream:
            found += [[_value(cell) for cell in row] for row in list(csv.reader(stream))[1:]]
    return sorted(found, key=lambda row: [cell for cell in map(str, row) if "." not in cell])


def _value(cell: str) -> str | Decimal:
    try:
        number = Decimal(cell)
    except InvalidOperation:
        return cell
    return number if number.is_finite() else cell


def _is_close(left: str | Decimal, right: str | Decimal) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    return abs(left - right) <= _CLOSE * max(abs(left), abs(right))


if __name__ == "__main__":
    os.chdir(_FOLDER.parent.parent)
    sys.exit(main())
