"""A driver of this user that stays when a run ends, so that the next one finds its modules, its JVM and its workers.

Here: who uses it (`client.py`), what it does (`server.py`), where it is and whom it serves (`drivers.py`).
Not here: what a run does; the driver calls the same command as a process of its own would.
"""
