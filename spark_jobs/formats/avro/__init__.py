"""Avro: records in blocks, with a schema of their own before them."""
