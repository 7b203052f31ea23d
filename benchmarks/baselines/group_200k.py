"""`workloads/group_200k.yaml` in PySpark and in DuckDB.

The order of the groups is left open, which makes the work lighter than ours.
"""

from __future__ import annotations

from functools import partial

from benchmarks.baselines import program, totals

spark = partial(totals.spark, by=("customer",))
duckdb = partial(totals.duckdb, by=("customer",))

if __name__ == "__main__":
    program.main(spark, duckdb)
