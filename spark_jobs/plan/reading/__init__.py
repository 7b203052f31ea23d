"""Reads files that users write: YAML with source positions, checked by models.

Here: pipelines, workspaces and format schemas, each file for itself.
Not here: what nodes mean to each other.
"""
