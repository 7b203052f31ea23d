"""The window functions on sorted rows, a module per family.

Here: what each function gives for whole columns, and which kernel a call has.
Not here: the rows on their way into order, and what calls are given.
"""
