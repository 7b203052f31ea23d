"""Finds and opens the inputs of sources: files, and pages of network sources.

Here: finding files, opening them, and detecting changes.
Not here: columns, splits and the meaning of bytes (`formats/`).
"""
