"""Reads files that users write: YAML with source positions, checked by models.

Here: pipelines, workspaces and format schemas, each file on its own.
Not here: references between nodes.
"""
