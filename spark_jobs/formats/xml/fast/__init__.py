"""XML the fast way: the tags and texts of regular records found as arrays, a portion at a time.

Here: tags, the shapes of records, their columns.
Not here: what a record means; whatever is irregular goes to Expat (`docs/json_xml.md`).
"""
