"""The Clinker engine: what is shipped to Spark.

Here: what starts runs and tells of them, with the standard library alone; a package per stage below.
Not here: Airflow; `clinker_provider` starts runs and reads their results.
"""

from __future__ import annotations

#: The version of the engine and of its distribution, `clinker-spark`.
__version__ = "0.2.0"
