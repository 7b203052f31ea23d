"""`workloads/route_dlq.yaml` in PySpark and in DuckDB: four outputs and the rejected rows.

Each write is a job of its own and reads the input again. `BENCH_PERSIST=1` keeps the frame between them instead
(`persist`); docs/performance.md has both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KINDS = (
    "CASE WHEN status = 'cancelled' THEN 'cancelled' WHEN total >= 5000.0 THEN 'large' "
    "WHEN region = 'north' THEN 'northern' ELSE 'others' END"
)


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    read = program.orders(session, mode="PERMISSIVE", columnNameOfCorruptRecord="bad")
    if os.environ.get("BENCH_PERSIST"):
        read = read.persist()
    good = read.where(F.col("bad").isNull()).drop("bad")
    priced = good.withColumn("total", F.round(F.col("amount") * F.col("quantity"), 2)).withColumn(
        "kind", F.expr(_KINDS)
    )
    for kind in ("cancelled", "large", "northern", "others"):
        program.write(priced.where(F.col("kind") == kind).drop("kind"), output, kind)
    program.write(read.where(F.col("bad").isNotNull()), output, "rejected")


def duckdb(output: str) -> list[str]:
    texts = program.read_sql("BENCH_ORDERS", program.ORDERS.replace("amount DOUBLE", "amount STRING"))
    priced = f"""CREATE TEMP TABLE priced AS SELECT *, {_KINDS} AS kind FROM (
        SELECT * REPLACE (try_cast(amount AS DOUBLE) AS amount), amount AS text,
               round(try_cast(amount AS DOUBLE) * quantity, 2) AS total FROM {texts})"""
    wanted = "SELECT * EXCLUDE (kind, text) FROM priced WHERE amount IS NOT NULL AND kind = '{}'"
    kinds = ("cancelled", "large", "northern", "others")
    copies = [program.copy_sql(wanted.format(kind), output, kind) for kind in kinds]
    rejected = "SELECT * EXCLUDE (kind, total) FROM priced WHERE amount IS NULL"
    return [priced, *copies, program.copy_sql(rejected, output, "rejected")]


if __name__ == "__main__":
    program.main(spark, duckdb)
