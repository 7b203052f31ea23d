"""The Clinker engine: what is shipped to Spark."""
