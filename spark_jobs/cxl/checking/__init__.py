"""Syntax trees to typed trees: every name bound, every type known, every mistake told.

Here: the checker, what it knows of a program's surroundings, and modules that programs use.
Not here: values of records; nothing is evaluated.
"""
