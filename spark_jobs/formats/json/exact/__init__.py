"""JSON the exact way: objects and members are interpreted record by record.

Here: objects to records and their values.
Not here: the fast ways, which have to give the same (`docs/json_xml.md`).
"""
