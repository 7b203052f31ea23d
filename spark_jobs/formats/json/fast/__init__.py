"""JSON the fast ways: portions of regular records read by columns.

Here: Arrow's reader with its traps, alike lines, nested values, exploded arrays, undeclared names.
Not here: what a record means; whatever is not surely the same goes the exact way (`docs/json_xml.md`).
"""
