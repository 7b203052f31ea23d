"""`workloads/startup.yaml`: the programs of `filter_derive` on a hundred rows."""

from __future__ import annotations

from benchmarks.baselines import filter_derive, program

spark = filter_derive.spark
duckdb = filter_derive.duckdb

if __name__ == "__main__":
    program.main(spark, duckdb)
