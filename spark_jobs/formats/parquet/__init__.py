"""Parquet: columns in row groups, with names and types of their own."""
