"""The aggregates of `tumbling` and `session` by a window and the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

AGGREGATES = "count(*) AS events, sum(amount) AS spent, avg(amount) AS mean, max(amount) AS largest"


def spark(session: SparkSession, output: str, window: Column) -> None:
    from pyspark.sql import functions as F

    totals = (
        program.events(session)
        .groupBy(window.alias("window"), "user")
        .agg(
            F.count("*").alias("events"),
            F.sum("amount").alias("spent"),
            F.avg("amount").alias("mean"),
            F.max("amount").alias("largest"),
        )
        .drop("window")
    )
    program.write(totals, output, "totals")
