"""Plan to run: the only package that touches Spark."""
