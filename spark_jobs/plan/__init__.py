"""YAML to plan: reads no data and needs no Spark."""
