"""The CXL language: text to syntax tree to typed tree to values.

Here: what all of the language shares: types, values, typed trees, failures.
Not here: nodes and files; whoever runs a program brings its surroundings.
"""
