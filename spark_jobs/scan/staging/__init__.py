"""Source files copied to a local folder, and read from there.

Here: which files, their copies, and what dead runs left of them.
Not here: outputs; those are never staged.
"""
