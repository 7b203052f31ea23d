"""`workloads/tumbling.yaml` in PySpark and in DuckDB.

The order of the groups is left open, which makes the work lighter than ours, and nothing is looked at for lateness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program, windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    windows.spark(session, output, F.window("at", "5 minutes"))


def duckdb(output: str) -> list[str]:
    query = f"""
        SELECT "user", {windows.AGGREGATES}
        FROM {program.read_sql("BENCH_EVENTS", program.EVENTS)}
        GROUP BY "user", time_bucket(INTERVAL 5 minutes, "at")"""
    return [program.copy_sql(query, output, "totals")]


if __name__ == "__main__":
    program.main(spark, duckdb)
