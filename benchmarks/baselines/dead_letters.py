"""`workloads/dead_letters.yaml` in PySpark and in DuckDB: the good rows, and the others as they were read.

Each write is a job of its own and reads the input again; `BENCH_PERSIST=1` keeps the frame between them instead.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    read = program.orders(session, mode="PERMISSIVE", columnNameOfCorruptRecord="bad")
    if os.environ.get("BENCH_PERSIST"):
        read = read.persist()
    program.write(read.where(F.col("bad").isNull()).drop("bad"), output, "good")
    program.write(read.where(F.col("bad").isNotNull()), output, "rejected")


def duckdb(output: str) -> list[str]:
    texts = program.read_sql("BENCH_ORDERS", program.ORDERS.replace("amount DOUBLE", "amount STRING"))
    known = f"CREATE TEMP TABLE known AS SELECT *, try_cast(amount AS DOUBLE) AS number FROM {texts}"
    good = "SELECT * EXCLUDE (amount, number), number AS amount FROM known WHERE number IS NOT NULL"
    rejected = "SELECT * EXCLUDE (number) FROM known WHERE number IS NULL"
    return [known, program.copy_sql(good, output, "good"), program.copy_sql(rejected, output, "rejected")]


if __name__ == "__main__":
    program.main(spark, duckdb)
