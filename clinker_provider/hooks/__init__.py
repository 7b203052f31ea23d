"""Hooks: the connections to Spark and to `clinker` commands."""
