"""What users have written, read: YAML with places, checked by models.

Here: pipelines, workspaces and format schemas, each file for itself.
Not here: what nodes mean to each other.
"""
