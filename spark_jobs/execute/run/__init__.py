"""A run on the driver: from a plan to an outcome.

Here: inputs, jobs and passes, errors that end a run, metrics and progress.
Not here: tasks, Spark sessions, publishing.
"""
