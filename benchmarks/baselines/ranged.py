"""The windows of `window` and `window_large` by some columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("id", "customer", "amount", "day", "nth", "so_far")


def spark(session: SparkSession, output: str, by: tuple[str, ...]) -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    ordered = Window.partitionBy(*by).orderBy("day", "id")
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    frame = program.orders(session)
    frame = frame.withColumn("nth", F.row_number().over(ordered)).withColumn("so_far", F.sum("amount").over(so_far))
    program.write(frame.select(*COLUMNS), output, "ranged")


def duckdb(output: str, by: tuple[str, ...]) -> list[str]:
    orders = program.read_sql("BENCH_ORDERS", program.ORDERS)
    over = f"(PARTITION BY {', '.join(by)} ORDER BY day, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    selected = f"id, customer, amount, day, row_number() OVER {over} AS nth, sum(amount) OVER {over} AS so_far"
    return [program.copy_sql(f"SELECT {selected} FROM {orders}", output, "ranged")]
