"""Plan to run: the only package that touches Spark.

Here: what its rooms share: identity, verdict, log, interrupts.
Not here: what a pipeline means; the plan has said that.
"""
