"""Iceberg tables as outputs: tasks write files into the folder of a table, and one change of the catalogue names them.

Here: columns and partitions of the table, the commit.
Not here: the parts common to all tables (`delivery/tables`), and the reading of manifests (`formats/iceberg`).
"""
