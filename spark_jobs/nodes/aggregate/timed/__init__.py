"""Aggregates with a `time_window`: fixed windows and sessions of event time, watermarks, records that come late.

Here: which windows a moment is in, how far sources have come, and the operators of such nodes.
Not here: grouping by keys and the functions, which all aggregates share; the configuration (`config.py`).
"""
