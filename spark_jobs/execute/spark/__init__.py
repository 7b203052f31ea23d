"""Spark itself: sessions, processes, settings, and distributing work over tasks.

Here: everything that differs between embedded, submitted and Connect sessions.
Not here: pipelines; these modules would serve another program as well.
"""
