"""`workloads/ndjson.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks.baselines import filter_derive, program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    program.write(filter_derive.priced(program.order_lines(session)), output, "priced")


def duckdb(output: str) -> list[str]:
    query = filter_derive.priced_sql(f"read_json('{os.environ['BENCH_ORDER_LINES']}', format = 'newline_delimited')")
    return [program.copy_sql(query, output, "priced")]


if __name__ == "__main__":
    program.main(spark, duckdb)
