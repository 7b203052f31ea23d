"""A warm driver: a process of this user that outlives a run, with modules, JVM and workers loaded for the next run.

Here: its client (`client.py`), the process itself (`server.py`), its socket and its users (`drivers.py`).
Not here: runs; the driver calls the same command that a new process would.
"""
