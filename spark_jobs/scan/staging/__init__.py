"""Staging: source files are copied to a local folder, and read from there.

Here: selecting files, copying them, and removing the remains of dead runs.
Not here: outputs, which are never staged.
"""
