"""`workloads/ranges.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    orders, intervals = program.orders(session), program.intervals(session)
    within = (orders["id"] >= intervals["low"]) & (orders["id"] < intervals["high"])
    labelled = orders.join(F.broadcast(intervals), within).select("id", "amount", "label")
    program.write(labelled, output, "labelled")


def duckdb(output: str) -> list[str]:
    query = f"""
        SELECT id, amount, label
        FROM {program.read_sql("BENCH_ORDERS", program.ORDERS)} AS orders
        JOIN {program.read_sql("BENCH_INTERVALS", program.INTERVALS)} AS intervals
        ON id >= low AND id < high"""
    return [program.copy_sql(query, output, "labelled")]


if __name__ == "__main__":
    program.main(spark, duckdb)
