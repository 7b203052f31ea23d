"""Plans shown to people and programs.

Here: text, JSON, digraphs, lineage.
Not here: facts of their own; all that is shown is asked of the plan.
"""
