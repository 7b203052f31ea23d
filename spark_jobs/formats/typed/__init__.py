"""Columns that have types of their own in their files.

Here: Arrow's types as ours and back, such columns as declared ones, and as the texts of values of any kind; what can be
known of them before they are read.
Not here: how a format keeps them.
"""
