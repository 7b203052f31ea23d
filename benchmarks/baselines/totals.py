"""The aggregates of `group_16` and `group_200k` by any columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str, by: Sequence[str]) -> None:
    from pyspark.sql import functions as F

    totals = (
        program.orders(session)
        .groupBy(*by)
        .agg(
            F.count("*").alias("orders"),
            F.sum("amount").alias("revenue"),
            F.sum("quantity").alias("pieces"),
            F.avg("amount").alias("mean"),
            F.max("amount").alias("largest"),
        )
    )
    program.write(totals, output, "totals")


def duckdb(output: str, by: Sequence[str]) -> list[str]:
    keys = ", ".join(by)
    query = f"""
        SELECT {keys}, count(*) AS orders, sum(amount) AS revenue, sum(quantity) AS pieces, avg(amount) AS mean,
               max(amount) AS largest
        FROM {program.read_sql("BENCH_ORDERS", program.ORDERS)} GROUP BY {keys}"""
    return [program.copy_sql(query, output, "totals")]
