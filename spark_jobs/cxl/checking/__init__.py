"""Checks syntax trees: binds every name, types every expression, and returns typed trees or findings.

Here: the checker, what it knows of a program's surroundings, and modules that programs use.
Not here: values of records; nothing is evaluated.
"""
