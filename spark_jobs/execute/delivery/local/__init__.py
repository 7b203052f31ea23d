"""Local files as a destination: drafts in folders beside the files, then renames.

Here: locks, journals, renames and recovery on a mounted file system.
Not here: the content of outputs. Only the code that chooses a destination imports these modules.
"""
