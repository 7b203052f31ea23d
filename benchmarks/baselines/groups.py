"""The orders of customers without a bad amount, and all others, for `correlated` and `correlated_all_dirty`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_TEXTS = program.ORDERS.replace("amount DOUBLE", "amount STRING")


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    read = session.read.options(header="true").schema(_TEXTS).csv(os.environ["BENCH_ORDERS"])
    known = read.withColumn("number", F.expr("try_cast(amount AS DOUBLE)"))
    dirty = known.where(F.col("number").isNull()).select("customer").distinct()
    good = known.join(dirty, "customer", "left_anti").withColumn("amount", F.col("number")).drop("number")
    program.write(good, output, "good")
    program.write(read.join(dirty, "customer", "left_semi"), output, "rejected")


def duckdb(output: str) -> list[str]:
    texts = program.read_sql("BENCH_ORDERS", _TEXTS)
    known = f"CREATE TEMP TABLE known AS SELECT *, try_cast(amount AS DOUBLE) AS number FROM {texts}"
    dirty = "SELECT customer FROM known WHERE number IS NULL"
    good = f"SELECT * EXCLUDE (amount, number), number AS amount FROM known WHERE customer NOT IN ({dirty})"
    rejected = f"SELECT * EXCLUDE (number) FROM known WHERE customer IN ({dirty})"
    return [known, program.copy_sql(good, output, "good"), program.copy_sql(rejected, output, "rejected")]
