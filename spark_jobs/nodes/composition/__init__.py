"""Composition: a call of a reusable fragment. The planner expands it; nothing of it is left at run time."""
