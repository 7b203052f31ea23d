"""`workloads/session.yaml` in PySpark and in DuckDB.

The order of the groups is left open, which makes the work lighter than ours, and nothing is looked at for lateness. A
pause as long as the gap does not end a session of ours, so theirs is a little longer; times are whole seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program, windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    windows.spark(session, output, F.session_window("at", "120 seconds 1 milliseconds"))


def duckdb(output: str) -> list[str]:
    query = f"""
        WITH known AS (
            SELECT *, "at" - lag("at") OVER (PARTITION BY "user" ORDER BY "at") > INTERVAL 2 minutes AS is_new
            FROM {program.read_sql("BENCH_EVENTS", program.EVENTS)}
        ), numbered AS (
            SELECT *, sum(coalesce(is_new, true)::INT) OVER (PARTITION BY "user" ORDER BY "at") AS session FROM known
        )
        SELECT "user", {windows.AGGREGATES} FROM numbered GROUP BY "user", session"""
    return [program.copy_sql(query, output, "totals")]


if __name__ == "__main__":
    program.main(spark, duckdb)
