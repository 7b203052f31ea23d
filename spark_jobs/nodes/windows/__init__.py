"""What window functions compute of the sorted rows of partitions: whole columns, batch by strip.

Here: the order of rows, batches of sorted rows, and what calls are given.
Not here: how rows are shuffled and put back into order, which the transform does (`nodes/transform/window_run.py`).
"""
