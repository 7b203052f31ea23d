"""The command `clinker test`: cases of pipelines, run in this process, without Spark.

Here: what a file of cases says, how a case runs and is compared, how cases are made and updated.
Not here: how jobs run without Spark; `execute/spark/in_process.py` does that.
"""
