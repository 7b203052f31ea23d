"""The command `clinker test`: cases of pipelines, run in this process, without Spark.

Here: reading files of cases, running and comparing cases, recording and updating them.
Not here: running jobs without Spark (`execute/spark/in_process.py`).
"""
