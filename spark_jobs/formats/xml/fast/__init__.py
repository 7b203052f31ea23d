"""XML the fast way: finds the tags and texts of regular records as arrays, a chunk of a document at a time.

Here: tags, the shapes of records, their columns.
Not here: the meaning of records; irregular ones go to Expat (`docs/json_xml.md`).
"""
