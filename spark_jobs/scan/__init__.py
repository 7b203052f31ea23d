"""Finds and opens the inputs of sources: files, and pages of network sources.

Here: finding files, opening them, and whether they are still what they were.
Not here: columns, splits, and what bytes mean; formats know that.
"""
