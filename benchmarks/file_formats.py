"""Filter and derive from each file format to itself, beside PySpark's own reader and writer and DuckDB's, in turns.

    python benchmarks/file_formats.py [--rows 1000000] [--runs 1] [--format parquet ...]

Prints the medians of time, processor time and peak memory of whole processes, and the ratios to PySpark's. Other work
on the machine changes the ratios of processor times least.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(_REPOSITORY))

import duckdb  # noqa: E402 - after the path

from benchmarks import measure  # noqa: E402

_COLUMNS = "id, name, price, day"
_LINES = "(format csv, header false, delimiter '\\x01', quote '', escape '')"
_POSITIONS = (
    "{ fields: [{ name: id, type: int, start: 0, width: 9 }, { name: name, type: string, start: 9, width: 12 },"
    " { name: %s, type: float, start: 21, width: 18 }, { name: day, type: date, start: 39, width: 10 }] }"
)


@dataclass(frozen=True)
class Case:
    """A format, in the words of each program.

    Args:
        form: how DuckDB writes the input.
        source: the source of the pipeline.
        output: its output.
        spark_reader: behind `spark.read.`.
        spark_writer: behind `write.`.
        duck_reader: what stands behind `from`; None where DuckDB has no reader.
        duck_writer: how DuckDB writes the output.
        columns: what DuckDB writes of each record.
        around: what stands before and behind the records.
        shape: what Spark does last.
    """

    form: str
    source: str
    output: str
    spark_reader: str
    spark_writer: str
    duck_reader: str | None = None
    duck_writer: str = ""
    columns: str = _COLUMNS
    around: tuple[bytes, bytes] = (b"", b"")
    shape: str = ""


_PARQUET = Case(
    "(format parquet)",
    "type: parquet, path: in",
    "type: parquet, path: out",
    'parquet("in")',
    'parquet("out")',
    "read_parquet('in')",
    "(format parquet)",
)
FORMATS = {
    "csv": Case(
        "(format csv, header)",
        "type: csv, path: in",
        "type: csv, path: out",
        'schema(S).option("header", True).csv("in")',
        'csv("out")',
        "read_csv('in', header = true)",
        "(format csv, header)",
    ),
    "csv.gz": Case(
        "(format csv, header, compression gzip)",
        "type: csv, path: in, options: { compression: gzip }",
        "type: csv, path: out.gz",
        'schema(S).option("header", True).csv("in.gz")',
        'option("compression", "gzip").csv("out")',
        "read_csv('in', header = true, compression = 'gzip')",
        "(format csv, header, compression gzip)",
    ),
    "ndjson": Case(
        "(format json)",
        "type: json, path: in",
        "type: json, path: out, options: { format: ndjson }",
        'schema(S).json("in")',
        'json("out")',
        "read_json('in')",
        "(format json)",
    ),
    "array": Case(
        "(format json, array true)",
        "type: json, path: in",
        "type: json, path: out",
        'schema(S).option("multiLine", True).json("in")',
        'json("out")',
        "read_json('in')",
        "(format json, array true)",
    ),
    "xml": Case(
        _LINES,
        "type: xml, path: in, options: { record_path: rows/row }",
        "type: xml, path: out, options: { root_element: rows, record_element: row }",
        'format("xml").option("rowTag", "row").schema(S).load("in")',
        'format("xml").option("rowTag", "row").option("rootTag", "rows").save("out")',
        columns="'<row><id>' || id || '</id><name>' || name || '</name><price>' || price || '</price><day>' || day"
        " || '</day></row>'",
        around=(b"<rows>\n", b"</rows>\n"),
    ),
    "fixed width": Case(
        _LINES,
        f"type: fixed_width, path: in, format_schema: {_POSITIONS % 'price'}",
        f"type: fixed_width, path: out, schema: {_POSITIONS % 'total'}",
        'text("in").selectExpr("cast(trim(substring(value, 1, 9)) as long) id", "trim(substring(value, 10, 12)) name",'
        ' "cast(trim(substring(value, 22, 18)) as double) price", "cast(substring(value, 40, 10) as date) day")',
        'text("out")',
        columns="lpad(id::varchar, 9, ' ') || rpad(name, 12, ' ') || lpad(price::varchar, 18, ' ') || day",
        shape=".selectExpr(\"concat(lpad(id, 9, ' '), rpad(name, 12, ' '), lpad(total, 18, ' '), day) as value\")",
    ),
    "parquet": _PARQUET,
    "parquet parts": replace(_PARQUET, output="type: parquet, path: out, parts: true"),
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
found = spark.read.{reader}.where("price > 500.0").selectExpr("id", "name", "price * 1.2 as total", "day"){shape}
found.write.mode("overwrite").{writer}
"""
_DUCK = """
import duckdb
duckdb.sql("copy (select id, name, price * 1.2 as total, day from {reader} where price > 500.0) to 'out' {writer}")
"""


def prepare(folder: Path, rows: int, case: Case) -> None:
    """Write the pipeline and its input, under a second name too, from which Spark knows that it is compressed."""
    query = (
        f"select range as id, 'name ' || (range % 5000) as name, (range % 100000) / 100.0::double as price, "
        f"date '2024-01-01' + (range % 365)::int as day from range({rows})"
    )
    before, behind = case.around
    duckdb.sql(f"copy (select {case.columns} from ({query})) to '{folder}/records' {case.form}")
    if before or behind:
        with (folder / "records").open("rb") as records, (folder / "in").open("wb") as whole:
            whole.write(before)
            shutil.copyfileobj(records, whole)
            whole.write(behind)
        (folder / "records").unlink()
    else:
        (folder / "records").rename(folder / "in")
    os.link(folder / "in", folder / "in.gz")
    (folder / "pipeline.yaml").write_text(_PIPELINE.format(source=case.source, output=case.output))


def compare(name: str, rows: int, runs: int) -> None:
    """Measure all programs in turns."""
    case = FORMATS[name]
    with tempfile.TemporaryDirectory(prefix="clinker-formats-") as path:
        folder = Path(path)
        prepare(folder, rows, case)
        size = (folder / "in").stat().st_size
        spark = _SPARK.format(
            cores=os.cpu_count(), reader=case.spark_reader, writer=case.spark_writer, shape=case.shape
        )
        (folder / "spark.py").write_text(spark)
        clinker = Path(sys.executable).with_name("clinker")
        commands = {
            "clinker": [str(clinker), "run", "pipeline.yaml", "--force", "--quiet"],
            "pyspark": [sys.executable, "spark.py"],
        }
        if case.duck_reader:
            (folder / "duck.py").write_text(_DUCK.format(reader=case.duck_reader, writer=case.duck_writer))
            commands["duckdb"] = [sys.executable, "duck.py"]
        found: dict[str, list[measure.Measurement]] = {who: [] for who in commands}
        for _ in range(runs):
            for who, command in commands.items():
                for old in folder.glob("out*"):
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
                found[who].append(measure.run(command, {}, folder, limit_s=900))
    _show(f"{name}, {size / 1e6:.0f} MB", found)


def _show(title: str, found: dict[str, list[measure.Measurement]]) -> None:
    medians = {
        who: [
            statistics.median(each)
            for each in zip(*((m.seconds, m.cpu_seconds, m.peak_bytes) for m in known), strict=True)
        ]
        for who, known in found.items()
    }
    for who, (seconds, cpu, peak) in medians.items():
        ratios = [mine / theirs for mine, theirs in zip(medians[who], medians["pyspark"], strict=True)]
        beside = "time {:.2f}, processor {:.2f}, memory {:.2f} of PySpark's".format(*ratios)
        print(
            f"{title:22} {who:8} {seconds:6.1f} s  {cpu:6.1f} s of processors  {peak / 1e6:6.0f} MB  {beside}",
            flush=True,
        )


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
