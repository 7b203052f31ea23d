"""Inside one Spark task: splits or shuffle records in, parts and a report out.

Here: the code on executors between Spark and the operators of the nodes.
Not here: decisions of the driver; a task knows its `spec` and nothing else.
"""
