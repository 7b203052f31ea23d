"""Iceberg tables: Parquet files that snapshots of a table choose, which a catalogue knows by its name."""
