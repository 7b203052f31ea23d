"""Window functions over the sorted rows of partitions, computed by columns, one batch at a time.

Here: the order of rows, batches of sorted rows, and the arguments of calls.
Not here: shuffling rows and restoring their order; the transform does that (`nodes/transform/window_run.py`).
"""
