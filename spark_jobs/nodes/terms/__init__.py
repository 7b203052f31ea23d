"""Declarations that steps make to the rest of the engine, and values that they receive.

Here: shapes, needs, demands, descriptions; values that planner, tasks and node types share.
Not here: what any one type says; that is in its `step.py`, `config.py` or `describe.py`.
"""
