"""Plan to run: the only package that touches Spark.

Here: identity, verdict, log and interrupts, which its packages share.
Not here: the meaning of a pipeline, which the plan has determined.
"""
