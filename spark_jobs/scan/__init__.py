"""Which bytes a source consists of: files and pages, as they were looked at.

Here: finding files, opening them, and whether they are still what they were.
Not here: columns, splits, and what bytes mean; formats know that.
"""
