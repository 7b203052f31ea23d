"""Objects of a store as a destination: parts below a prefix of the run, invisible uploads, then the verdict.

Here: the objects of a run, its lease and locks, publishing, recovery.
Not here: the store's protocol (`stores/writing.py`).
"""
