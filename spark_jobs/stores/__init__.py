"""Stores that are reached by URI: where objects are, which there are, and their bytes.

Here: URIs, settings of stores, listing, reading by ranges, uploads and conditions, what a store refuses and what to do
about it.
Not here: which objects a source reads (`scan/matching.py`), and how outputs get there (`execute/delivery/`).
"""
