"""Which bytes a source consists of: discovery, splits, and how a file's columns meet the declared ones.

Here: finding and opening files, cutting them, reading a split.
Not here: what bytes mean; formats know that.
"""
