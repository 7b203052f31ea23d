"""The builtin functions of CXL, a family per module."""
