"""Window functions over the sorted rows of partitions, computed by columns, one batch at a time.

Here: the order of rows, batches of sorted rows, and what calls are given.
Not here: how rows are shuffled and put back into order, which the transform does (`nodes/transform/window_run.py`).
"""
