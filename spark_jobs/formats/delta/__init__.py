"""Delta tables: Parquet files that a log chooses, with values of partitions, deleted rows, columns that came later."""
