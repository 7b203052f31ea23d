"""The terms on which steps and the rest of the engine meet: what a step says of itself, and what it is told.

Here: shapes, needs, demands, descriptions; values that planner, tasks and node types share.
Not here: what any one type says; that is in its `step.py`, `config.py` or `describe.py`.
"""
