"""Plans shown to people and programs.

Here: text, JSON, digraphs, lineage.
Not here: facts of its own; everything shown comes from the plan.
"""
