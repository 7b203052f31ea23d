"""The Clinker engine, which is shipped to Spark.

Here: modules that start runs and report their results, which need only the standard library; and a package per stage.
Not here: Airflow; `clinker_provider` starts runs and reads their results.
"""

from __future__ import annotations

#: The version of the engine and of its distribution, `clinker-spark`.
__version__ = "0.2.0"
