"""Ships the engine to the executors of a cluster, and lets their Python workers start quickly.

An embedded Spark's workers find this very package on their path. On a cluster the engine is a zip, which Spark puts
into each executor's working folder before the first task; a path that is relative to that folder makes the engine
known to the process that workers are forked from, so that it imports ahead there as well.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import spark_jobs
from spark_jobs import bundle
from spark_jobs.execute.spark import internals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

DAEMON_SETTING = "spark.python.daemon.module"
DAEMON = "spark_jobs.execute.spark.worker_daemon"
PATH_SETTING = "spark.executorEnv.PYTHONPATH"
#: Executors move shuffle records: the cheap compiler is enough, and ready sooner. Options of users follow these.
_EXECUTOR_JAVA = {"spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -Xshare:auto"}


def root() -> str:
    """The folder or the zip that this very package was imported from."""
    return str(Path(spark_jobs.__file__).resolve().parents[1])


def is_shipped() -> bool:
    """True if the package came as a zip: `spark-submit --py-files` takes that one to the executors as well."""
    return os.path.isfile(root())


def settings(master: str, known: Mapping[str, str]) -> dict[str, str]:
    """The settings of an application that ship the engine, added to known ones; the user's settings stay.

    Args:
        master: Spark's master.
        known: the settings that there are.
    """
    is_local = master.startswith("local")
    archive = os.path.basename(root()) if is_shipped() else f"{bundle.PACKAGE}.zip"
    path = [root() if is_local else archive, known.get(PATH_SETTING)]
    added = {PATH_SETTING: os.pathsep.join(filter(None, path))}
    if internals.is_fast() and known.get("spark.python.use.daemon", "true") == "true":
        added[DAEMON_SETTING] = DAEMON
    if not is_local:
        added |= _EXECUTOR_JAVA
    return {key: value for key, value in added.items() if key == PATH_SETTING or key not in known}


def ship(spark: SparkSession) -> None:
    """Give the executors of a cluster the engine, unless they get it already."""
    context = spark.sparkContext
    if not context.master.startswith("local") and not is_shipped():
        context.addPyFile(str(bundle.build_temporary()))
