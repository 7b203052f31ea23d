"""Local disks: volumes, locks between processes, durable writes, errors of the system.

Here: locks, volumes, making files last, folders of a run's own.
Not here: what stands in files.
"""
