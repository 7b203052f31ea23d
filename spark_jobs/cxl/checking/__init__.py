"""Checks syntax trees: binds every name, types every expression, and returns typed trees or findings.

Here: the checker, the scope of a program, and modules that programs use.
Not here: values of records; nothing is evaluated.
"""
