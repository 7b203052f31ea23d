"""JSON the fast ways: portions of regular records read by columns.

Here: Arrow's reader with its traps, alike lines, nested values, exploded arrays, undeclared names.
Not here: the meaning of records; records that may differ here are read the exact way (`docs/json_xml.md`).
"""
