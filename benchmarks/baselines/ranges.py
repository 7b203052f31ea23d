"""`workloads/ranges.yaml` in PySpark and in DuckDB.

In PySpark both sides have the buckets of numbers that they lie in, so that records meet few intervals: a join without
an equal column would try all pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    orders, intervals = program.orders(session), program.intervals(session)
    width = max(1, int(intervals.agg(F.avg(F.col("high") - F.col("low"))).first()[0]))
    intervals = intervals.withColumn("bucket", F.explode(F.expr(f"sequence(low div {width}, (high - 1) div {width})")))
    orders = orders.withColumn("bucket", F.expr(f"id div {width}"))
    within = (orders["id"] >= intervals["low"]) & (orders["id"] < intervals["high"])
    is_same = orders["bucket"] == intervals["bucket"]
    labelled = orders.join(F.broadcast(intervals), is_same & within).select("id", "amount", "label")
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
