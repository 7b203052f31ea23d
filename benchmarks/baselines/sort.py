"""`workloads/sort.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark(session: SparkSession, output: str) -> None:
    frame = program.orders(session)
    program.write(frame.orderBy(frame.customer, frame.amount.desc()), output, "sorted")


def duckdb(output: str) -> list[str]:
    orders = program.read_sql("BENCH_ORDERS", program.ORDERS)
    return [program.copy_sql(f"SELECT * FROM {orders} ORDER BY customer, amount DESC", output, "sorted")]


if __name__ == "__main__":
    program.main(spark, duckdb)
