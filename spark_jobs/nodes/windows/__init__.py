"""What window functions compute of the sorted rows of partitions: whole columns, strip by strip.

Here: the order of rows, strips of sorted rows, and what calls are given.
Not here: how rows come to where they meet and go home, which is the transform's (`nodes/transform/window_run.py`).
"""
