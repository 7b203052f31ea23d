"""`workloads/group_16.yaml` in PySpark and in DuckDB."""

from __future__ import annotations

from functools import partial

from benchmarks.baselines import program, totals

spark = partial(totals.spark, by=("region", "status"))
duckdb = partial(totals.duckdb, by=("region", "status"))

if __name__ == "__main__":
    program.main(spark, duckdb)
