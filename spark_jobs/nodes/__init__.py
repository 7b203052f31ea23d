"""The node types of a pipeline, one package each."""
