"""Clients of object stores and file systems that are named by URIs: they list, read, write and delete objects.

Here: URIs, settings of stores, listing, reading by ranges, uploads and conditions, and errors of stores with remedies.
Not here: which objects a source reads (`scan/matching.py`), and how outputs are published (`execute/delivery/`).
"""
