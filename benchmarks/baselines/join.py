"""`workloads/join.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    others = program.orders(session).select("id", "quantity", "note")
    joined = program.orders(session).select("id", "customer", "amount").join(others, "id")
    program.write(joined, output, "joined")


def duckdb(output: str) -> list[str]:
    orders = program.read_sql("BENCH_ORDERS", program.ORDERS)
    query = f"""
        SELECT id, orders.customer, orders.amount, others.quantity, others.note
        FROM {orders} AS orders JOIN {orders} AS others USING (id)"""
    return [program.copy_sql(query, output, "joined")]


if __name__ == "__main__":
    program.main(spark, duckdb)
