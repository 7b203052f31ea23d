"""CXL on Arrow: typed trees as kernels over batches of records.

Here: how batches are evaluated, and what kernels of builtins share.
Not here: meanings of their own; what is odd goes to the interpreter.
"""
