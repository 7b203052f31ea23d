"""The Clinker engine: what is shipped to Spark.

Here: what starts runs and tells of them, with the standard library alone; a package per stage below.
Not here: Airflow; `clinker_provider` starts runs and reads their results.
"""
