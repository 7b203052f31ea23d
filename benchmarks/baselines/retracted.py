"""`workloads/retracted.yaml` in PySpark and in DuckDB: rounds until no row fails that has not failed before.

The columns that the rounds need are kept; failing keys are few, and are broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.baselines import program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = ("basket", "shelf")
_NAMES = {"basket": "baskets", "shelf": "shelves"}
_LEAST, _FEW = 870, 50
_PLACES = {"basket": "id - id % 100", "shelf": "id - id % 10000 + id % 100"}


def spark(session: SparkSession, output: str) -> None:
    from pyspark.sql import functions as F

    placed = program.orders(session)
    for key in KEYS:
        placed = placed.withColumn(key, F.expr(_PLACES[key]))
    kept = placed.select(*KEYS, "quantity").persist()
    failed = {key: session.createDataFrame([], f"{key} BIGINT") for key in KEYS}
    rows = {}
    while True:
        found = False
        for key in KEYS:
            left = kept
            for other in KEYS:
                left = left.join(F.broadcast(failed[other]), other, "left_anti")
            pieces = F.sum("quantity").alias("pieces")
            rows[key] = left.groupBy(key).agg(F.count("*").alias("orders"), pieces)
            few = rows[key].where((F.col("pieces") < _LEAST) & (F.col("orders") >= _FEW)).select(key).collect()
            found = found or bool(few)
            rows[key] = rows[key].withColumn("least", F.lit(_LEAST))
            failed[key] = failed[key].union(session.createDataFrame(few, f"{key} BIGINT")).localCheckpoint()
        if not found:
            break
    good = placed
    for key in KEYS:
        good = good.join(F.broadcast(failed[key]), key, "left_anti")
        program.write(rows[key], output, _NAMES[key])
    program.write(good, output, "good")
    both = failed["basket"].union(failed["shelf"])
    program.write(both, output, "rejected")


def duckdb(output: str) -> list[str]:
    places = ", ".join(f"{_PLACES[key]} AS {key}" for key in KEYS)
    placed = f"CREATE TEMP TABLE placed AS SELECT *, {places} FROM {program.read_sql('BENCH_ORDERS', program.ORDERS)}"
    failed = [f"CREATE TEMP TABLE failed_{key} ({key} BIGINT)" for key in KEYS]
    left = f"(SELECT * FROM placed WHERE {' AND '.join(f'{key} NOT IN (FROM failed_{key})' for key in KEYS)})"
    totals = f"SELECT {{key}}, count(*) AS orders, sum(quantity) AS pieces FROM {left} GROUP BY {{key}}"
    # A statement cannot repeat itself: more rounds than the data needs find nothing.
    few = f"WHERE pieces < {_LEAST} AND orders >= {_FEW}"
    rounds = [
        f"INSERT INTO failed_{key} SELECT {key} FROM ({totals.format(key=key)}) {few}" for _ in range(6) for key in KEYS
    ]
    writes = [
        program.copy_sql(f"SELECT *, {_LEAST} AS least FROM ({totals.format(key=key)})", output, _NAMES[key])
        for key in KEYS
    ]
    rejected = " UNION ALL ".join(f"SELECT {key} FROM failed_{key}" for key in KEYS)
    writes += [program.copy_sql(f"FROM {left}", output, "good"), program.copy_sql(rejected, output, "rejected")]
    return [placed, *failed, *rounds, *writes]


if __name__ == "__main__":
    program.main(spark, duckdb)
