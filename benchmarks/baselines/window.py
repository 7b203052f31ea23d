"""`workloads/window.yaml` in PySpark and in DuckDB.

The order of the records is left open, which makes the work lighter than ours.
"""

from __future__ import annotations

from functools import partial

from benchmarks.baselines import program, ranged

spark = partial(ranged.spark, by=("customer",))
duckdb = partial(ranged.duckdb, by=("customer",))

if __name__ == "__main__":
    program.main(spark, duckdb)
