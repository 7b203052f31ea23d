"""`workloads/collect.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    orders = program.orders(session)
    arrays = orders.groupBy("customer").agg(F.collect_list(F.struct(*orders.columns)).alias("orders"))
    counted = program.customers(session).join(arrays, "customer", "left")
    counted = counted.select("customer", "name", F.when(F.col("orders").isNull(), 0).otherwise(F.size("orders")))
    program.write(counted.toDF("customer", "name", "orders"), output, "counted")


def duckdb(output: str) -> list[str]:
    orders = program.read_sql("BENCH_ORDERS", program.ORDERS)
    query = f"""
        SELECT customer, name, coalesce(len(collected), 0) AS orders
        FROM {program.read_sql("BENCH_CUSTOMERS", program.CUSTOMERS)} AS customers
        LEFT JOIN (SELECT customer, list(orders) AS collected FROM {orders} AS orders GROUP BY customer)
        USING (customer)"""
    return [program.copy_sql(query, output, "counted")]


if __name__ == "__main__":
    program.main(spark, duckdb)
