"""The CXL language: text to syntax tree to typed tree to values."""
