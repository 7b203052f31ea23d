"""JSON the exact way: what objects and their members mean, decided for one record after the other.

Here: objects to records and their values.
Not here: the fast ways, which have to give the same (`docs/json_xml.md`).
"""
