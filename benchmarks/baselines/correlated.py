"""`workloads/correlated.yaml` in PySpark and in DuckDB. Each write is a job that reads the input again."""

from __future__ import annotations

from benchmarks.baselines import groups, program

spark, duckdb = groups.spark, groups.duckdb

if __name__ == "__main__":
    program.main(spark, duckdb)
