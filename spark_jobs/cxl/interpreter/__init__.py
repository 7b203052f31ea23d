"""The meaning of CXL: typed trees as Python closures, run on one record at a time.

Here: the reference semantics, with which kernels must agree to the last bit.
Not here: the builtins themselves (`builtins`).
"""
