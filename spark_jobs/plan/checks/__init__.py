"""Checks of a pipeline as a whole: errors, and legal things that are hardly meant.

Here: questions that no node can answer for itself.
Not here: what is wrong with one node; its type says that.
"""
