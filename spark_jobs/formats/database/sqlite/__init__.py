"""SQLite as a place that sources read and outputs write.

Here: the statements of this database, its types, and how its driver is used.
Not here: the interface of sources and outputs to any database (`../read.py`, `../write.py`, `../targets.py`).
"""
