"""output: records into a file."""
