"""A run on the driver: from a plan to an outcome.

Here: what is read, which jobs there are, what ends a run, what is told of it.
Not here: what happens inside tasks, how Spark is reached, how files become visible.
"""
