"""`workloads/filter_derive.yaml` and `workloads/startup.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def spark(session: SparkSession, output: str) -> None:
    program.write(priced(program.orders(session)), output, "priced")


def priced(orders: DataFrame) -> DataFrame:
    """Transform orders as the pipeline does."""
    from pyspark.sql import functions as F

    return orders.where((F.col("status") != "cancelled") & (F.col("quantity") > 2)).select(
        "id",
        "customer",
        "day",
        F.round(F.col("amount") * F.col("quantity"), 2).alias("total"),
        F.when(F.col("quantity") >= 10, "bulk").otherwise("single").alias("size"),
        F.upper("region").alias("zone"),
    )


def duckdb(output: str) -> list[str]:
    query = priced_sql(program.read_sql("BENCH_ORDERS", program.ORDERS))
    return [program.copy_sql(query, output, "priced")]


def priced_sql(orders: str) -> str:
    """The same for DuckDB."""
    return f"""
        SELECT id, customer, day, round(amount * quantity, 2) AS total,
               CASE WHEN quantity >= 10 THEN 'bulk' ELSE 'single' END AS size, upper(region) AS zone
        FROM {orders}
        WHERE status != 'cancelled' AND quantity > 2"""


if __name__ == "__main__":
    program.main(spark, duckdb)
