"""Iceberg tables as outputs: tasks write files into the folder of a table, and one change of the catalogue names them.

Here: what the columns and partitions of the table ask for, the commit.
Not here: what all tables have in common, which `delivery/tables` does; how manifests are read (`formats/iceberg`).
"""
