"""`workloads/lookup.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    named = (
        program.orders(session)
        .join(F.broadcast(program.customers(session)), "customer")
        .select(
            "id",
            "customer",
            "name",
            "segment",
            F.round(F.col("amount") * (1.0 - F.col("discount")), 4).alias("price"),
            "day",
        )
    )
    program.write(named, output, "named")


def duckdb(output: str) -> list[str]:
    query = f"""
        SELECT id, customer, name, segment, round(amount * (1.0 - discount), 4) AS price, day
        FROM {program.read_sql("BENCH_ORDERS", program.ORDERS)} AS orders
        JOIN {program.read_sql("BENCH_CUSTOMERS", program.CUSTOMERS)} AS customers USING (customer)"""
    return [program.copy_sql(query, output, "named")]


if __name__ == "__main__":
    program.main(spark, duckdb)
