"""Diagnostics for users: a code, a place, an excerpt and help.

Here: all codes and their pages, places in texts, how problems are shown.
Not here: finding problems; that is done where the knowledge is.
"""
