"""Filter and derive from each file format to itself, beside PySpark's own reader and writer: whole processes in turns.

    python benchmarks/file_formats.py [--rows 1000000] [--runs 1] [--format parquet ...]

Prints the medians of time, processor time and peak memory of both, and the ratio of the processor times, which other
work on the machine changes least.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(_REPOSITORY))

import duckdb  # noqa: E402 - after the path

from benchmarks import measure  # noqa: E402

#: For each format: how DuckDB writes the input, the source, the output, Spark's reader and Spark's writer.
FORMATS = {
    "csv": (
        "(format csv, header)",
        "type: csv, path: in",
        "type: csv, path: out",
        'schema(S).option("header", True).csv("in")',
        'csv("out")',
    ),
    "csv.gz": (
        "(format csv, header, compression gzip)",
        "type: csv, path: in, options: { compression: gzip }",
        "type: csv, path: out.gz",
        'schema(S).option("header", True).csv("in.gz")',
        'option("compression", "gzip").csv("out")',
    ),
    "ndjson": (
        "(format json)",
        "type: json, path: in",
        "type: json, path: out, options: { format: ndjson }",
        'schema(S).json("in")',
        'json("out")',
    ),
    "array": (
        "(format json, array true)",
        "type: json, path: in",
        "type: json, path: out",
        'schema(S).option("multiLine", True).json("in")',
        'json("out")',
    ),
    "parquet": (
        "(format parquet)",
        "type: parquet, path: in",
        "type: parquet, path: out",
        'parquet("in")',
        'parquet("out")',
    ),
    "parquet parts": (
        "(format parquet)",
        "type: parquet, path: in",
        "type: parquet, path: out, parts: true",
        'parquet("in")',
        'parquet("out")',
    ),
}  # fmt: skip
_PIPELINE = """
pipeline: {{ name: formats }}
nodes:
  - {{ type: source, name: s, config: {{ {source}, schema: {{ id: int, name: string, price: float, day: date }} }} }}
  - type: transform
    name: t
    input: s
    config:
      cxl: |
        filter price > 500.0
        emit id = id
        emit name = name
        emit total = price * 1.2
        emit day = day
  - {{ type: output, name: o, input: t, config: {{ {output}, if_exists: overwrite, include_unmapped: false }} }}
"""
_SPARK = """
from pyspark.sql import SparkSession, functions as f
spark = SparkSession.builder.master("local[{cores}]").config("spark.ui.enabled", False).getOrCreate()
S = "id long, name string, price double, day date"
found = spark.read.{reader}.where("price > 500.0").selectExpr("id", "name", "price * 1.2 as total", "day")
found.write.mode("overwrite").{writer}
"""


def prepare(folder: Path, rows: int, how: str) -> None:
    """Write the input; where Spark has to know from the name that it is compressed, under a second one."""
    query = (
        f"select range as id, 'name ' || (range % 5000) as name, (range % 100000) / 100.0::double as price, "
        f"date '2024-01-01' + (range % 365)::int as day from range({rows})"
    )
    duckdb.sql(f"copy ({query}) to '{folder}/in' {how}")
    os.link(folder / "in", folder / "in.gz")


def compare(name: str, rows: int, runs: int) -> None:
    """Measure both programs in turns."""
    how, source, output, reader, writer = FORMATS[name]
    clinker = Path(sys.executable).with_name("clinker")
    found: dict[str, list[measure.Measurement]] = {"clinker": [], "pyspark": []}
    with tempfile.TemporaryDirectory(prefix="clinker-formats-") as path:
        folder = Path(path)
        prepare(folder, rows, how)
        (folder / "pipeline.yaml").write_text(_PIPELINE.format(source=source, output=output))
        (folder / "spark.py").write_text(_SPARK.format(cores=os.cpu_count(), reader=reader, writer=writer))
        commands = {
            "clinker": [str(clinker), "run", "pipeline.yaml", "--force", "--quiet"],
            "pyspark": [sys.executable, "spark.py"],
        }
        for _ in range(runs):
            for who, command in commands.items():
                shutil.rmtree(folder / "out", ignore_errors=True)
                (folder / "out").unlink(missing_ok=True)
                found[who].append(measure.run(command, {}, folder, limit_s=600))
    cpu = {who: statistics.median(each.cpu_seconds for each in known) for who, known in found.items()}
    for who, known in found.items():
        seconds = statistics.median(each.seconds for each in known)
        peak = statistics.median(each.peak_bytes for each in known) / 1e6
        print(f"{name:14} {who:8} {seconds:6.1f} s  {cpu[who]:6.1f} s of processors  {peak:6.0f} MB", flush=True)
    print(f"{name:14} ratio    {cpu['clinker'] / cpu['pyspark']:6.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--format", action="append", choices=FORMATS)
    asked = parser.parse_args()
    for name in asked.format or FORMATS:
        compare(name, asked.rows, asked.runs)


if __name__ == "__main__":
    main()
