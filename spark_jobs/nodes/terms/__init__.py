"""Declarations that steps make to the rest of the engine, and values that they receive.

Here: phases, needs, requirements, properties, descriptions; values that planner, tasks and node types share.
Not here: the declarations of a type; they are in its `step.py`, `config.py` or `describe.py`.
"""
