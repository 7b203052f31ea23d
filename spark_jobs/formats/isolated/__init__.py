"""Files of libraries that may end the process, read in a process of its own.

Here: the process, and how a task talks with it. Not here: what it runs, which each format has (`orc/decoding.py`).
"""
