"""Local disks: what they are, what they refuse, and what several processes may do on them.

Here: locks, volumes, making files last, folders of a run's own.
Not here: what stands in files.
"""
