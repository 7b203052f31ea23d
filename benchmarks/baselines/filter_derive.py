"""`workloads/filter_derive.yaml` and `workloads/startup.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    priced = (
        program.orders(session)
        .where((F.col("status") != "cancelled") & (F.col("quantity") > 2))
        .select(
            "id",
            "customer",
            "day",
            F.round(F.col("amount") * F.col("quantity"), 2).alias("total"),
            F.when(F.col("quantity") >= 10, "bulk").otherwise("single").alias("size"),
            F.upper("region").alias("zone"),
        )
    )
    program.write(priced, output, "priced")


def duckdb(output: str) -> list[str]:
    query = f"""
        SELECT id, customer, day, round(amount * quantity, 2) AS total,
               CASE WHEN quantity >= 10 THEN 'bulk' ELSE 'single' END AS size, upper(region) AS zone
        FROM {program.read_sql("BENCH_ORDERS", program.ORDERS)}
        WHERE status != 'cancelled' AND quantity > 2"""
    return [program.copy_sql(query, output, "priced")]


if __name__ == "__main__":
    program.main(spark, duckdb)
