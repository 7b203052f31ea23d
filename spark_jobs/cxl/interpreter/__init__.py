"""The meaning of CXL: typed trees as Python closures, run on one record at a time.

Here: what kernels must agree with to the last bit.
Not here: what a single builtin does; that is `builtins`.
"""
