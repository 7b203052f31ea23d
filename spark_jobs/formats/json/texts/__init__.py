"""JSON texts taken apart: values, elements of arrays, lines, and escapes.

Here: where values begin and end in bytes and texts, and the values of small texts.
Not here: records and their columns, which the packages `exact` and `fast` make of them.
"""
