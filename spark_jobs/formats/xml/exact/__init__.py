"""XML the exact way: the elements that Expat finds become texts of columns, or trees.

Here: the meaning of elements and attributes, one after the other.
Not here: the document around records; the fast way, which has to give the same results (`docs/json_xml.md`).
"""
