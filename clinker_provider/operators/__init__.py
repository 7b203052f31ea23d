"""Operators: a Clinker run on Spark, a check of a pipeline, the collection of metrics."""
