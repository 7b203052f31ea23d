"""XML the exact way: the elements that Expat finds become texts of columns, or trees.

Here: what elements and attributes mean, decided for one after the other.
Not here: the document around records; the fast way, which has to give the same (`docs/json_xml.md`).
"""
