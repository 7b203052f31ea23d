"""Local files as a destination: drafts in folders beside the files, then renames.

Here: what locks, journals, renames and recovers on a mounted file system.
Not here: what an output is made of; nobody else in `execute` knows these modules, but the run that chooses them.
"""
