"""CXL on Arrow: typed trees as kernels over batches of records.

Here: evaluation of batches, and helpers for kernels of builtins.
Not here: semantics; kernels leave unusual rows to the interpreter.
"""
