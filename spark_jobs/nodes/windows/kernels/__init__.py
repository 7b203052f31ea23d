"""The window functions on sorted rows, a module per family.

Here: the kernel of each function, for whole columns, and the choice of a call's kernel.
Not here: sorting rows, and the arguments of calls.
"""
