"""Decodes files in an isolated process, with libraries that may end their process.

Here: the process, and its protocol with a task. Not here: the decoders, which belong to formats (`orc/decoding.py`).
"""
