"""`workloads/skew.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    orders = program.orders(session)
    named = orders.join(program.customers(session), "customer").select("id", "customer", "name", "amount")
    program.write(named, output, "named")
    pieces = F.sum("quantity").alias("pieces")
    totals = orders.groupBy("customer").agg(F.count("*").alias("orders"), F.sum("amount").alias("revenue"), pieces)
    program.write(totals, output, "totals")


def duckdb(output: str) -> list[str]:
    orders = program.read_sql("BENCH_ORDERS", program.ORDERS)
    customers = program.read_sql("BENCH_CUSTOMERS", program.CUSTOMERS)
    named = f"SELECT id, customer, name, amount FROM {orders} AS orders JOIN {customers} AS customers USING (customer)"
    totals = f"""
        SELECT customer, count(*) AS orders, sum(amount) AS revenue, sum(quantity) AS pieces
        FROM {orders} GROUP BY customer"""
    return [program.copy_sql(named, output, "named"), program.copy_sql(totals, output, "totals")]


if __name__ == "__main__":
    program.main(spark, duckdb)
