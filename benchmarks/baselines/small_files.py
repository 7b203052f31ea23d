"""`workloads/small_files.yaml`: the programs of `filter_derive`; both engines take a pattern of files."""

from __future__ import annotations

from benchmarks.baselines import filter_derive, program

spark = filter_derive.spark
duckdb = filter_derive.duckdb

if __name__ == "__main__":
    program.main(spark, duckdb)
