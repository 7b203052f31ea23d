"""Runs a baseline: `python -m benchmarks.baselines.<name> spark|duckdb`, files named by the environment.

`BENCH_ORDERS`, `BENCH_ORDER_LINES`, `BENCH_EVENTS` and `BENCH_CUSTOMERS` are the inputs, `BENCH_OUTPUT` is an existing
folder for the results. Each baseline is written as a practised engineer would write it: the schema is given, functions
are native, settings fit one machine.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

ORDERS = (
    "id BIGINT, customer STRING, region STRING, status STRING, amount DOUBLE, quantity BIGINT, day DATE, note STRING"
)
EVENTS = "id BIGINT, user STRING, at TIMESTAMP, amount DOUBLE"
INTERVALS = "low BIGINT, high BIGINT, label STRING"
CUSTOMERS = "customer STRING, name STRING, segment STRING, discount DOUBLE"
#: The same for DuckDB, which takes the types in its reader's options.
_DUCKDB_TYPES = {"BIGINT": "BIGINT", "STRING": "VARCHAR", "DOUBLE": "DOUBLE", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP"}


def main(spark: Callable[[SparkSession, str], None], duckdb: Callable[[str], list[str]]) -> None:
    """Run the engine that the command line names; `spark` and `duckdb` get the output folder."""
    output = os.environ["BENCH_OUTPUT"]
    if sys.argv[1] == "spark":
        session = open_session()
        spark(session, output)
        session.stop()
    else:
        _run_duckdb(duckdb(output))


def orders(session: SparkSession, **options: str) -> DataFrame:
    """The orders, typed."""
    schema = ORDERS + ", bad STRING" if "columnNameOfCorruptRecord" in options else ORDERS
    return session.read.options(header="true", **options).schema(schema).csv(os.environ["BENCH_ORDERS"])


def order_lines(session: SparkSession, schema: str | None = ORDERS) -> DataFrame:
    """The orders of the NDJSON file, typed; without a schema Spark reads the file once more to find one."""
    reader = session.read if schema is None else session.read.schema(schema)
    return reader.json(os.environ["BENCH_ORDER_LINES"])


def intervals(session: SparkSession) -> DataFrame:
    """The intervals, typed."""
    return session.read.options(header="true").schema(INTERVALS).csv(os.environ["BENCH_INTERVALS"])


def customers(session: SparkSession) -> DataFrame:
    """The customers, typed."""
    return session.read.options(header="true").schema(CUSTOMERS).csv(os.environ["BENCH_CUSTOMERS"])


def events(session: SparkSession) -> DataFrame:
    """The events, typed."""
    return session.read.options(header="true").schema(EVENTS).csv(os.environ["BENCH_EVENTS"])


def write(frame: DataFrame, output: str, name: str) -> None:
    """Write a frame as a folder of CSV files."""
    frame.write.mode("overwrite").options(header="true").csv(f"{output}/{name}")


def read_sql(variable: str, schema: str, *, options: str = "") -> str:
    """DuckDB's typed reader of an input."""
    columns = (column.split(" ") for column in schema.split(", "))
    kinds = ", ".join(f"'{name}': '{_DUCKDB_TYPES[kind]}'" for name, kind in columns)
    return f"read_csv('{os.environ[variable]}', header = true, columns = {{{kinds}}}{options})"


def copy_sql(query: str, output: str, name: str) -> str:
    """DuckDB's statement that writes a query's rows to a CSV file."""
    return f"COPY ({query}) TO '{output}/{name}.csv' (HEADER)"


def open_session() -> SparkSession:
    """A session with settings that fit one machine."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master(os.environ.get("BENCH_MASTER", "local[*]"))
        .appName("baseline")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        # One machine: as many shuffle partitions as keep its cores busy, instead of 200.
        .config("spark.sql.shuffle.partitions", str(4 * (os.cpu_count() or 1)))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def _run_duckdb(statements: list[str]) -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = true")
    for statement in statements:
        connection.execute(statement)
