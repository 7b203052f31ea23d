"""The builtin functions of CXL, a family per module.

Here: signature, meaning, examples and kernel of each function, in one place.
Not here: calls; null rules and overloads are the same for all.
"""
