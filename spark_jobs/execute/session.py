"""Where jobs run: the session that is there, an embedded one, the cluster's, or a Connect endpoint."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.execute import connect, logs
from spark_jobs.scan.spill_folder import SpillFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from spark_jobs.plan.options import RunOptions

#: Settings that every session gets. Names: spark.apache.org/docs/latest/configuration.html
_RUNTIME = {
    # Payload frames have a few rows of some megabytes each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8",
    # The chain of a job is fixed: adaptive execution would only run it in more jobs.
    "spark.sql.adaptive.enabled": "false",
}
_EMBEDDED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.worker.reuse": "true",
    "spark.driver.memory": "1g",
}


class SessionError(Exception):
    """A session cannot be had: what is missing, and what to do.

    Nothing is as transient as an endpoint that is away; a machine without Java stays one.
    """

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.exit_code = ExitCode.IO if is_transient else ExitCode.CONFIG


def open_session(options: RunOptions, threads: int | None, local_dir: str | None = None) -> SparkSession:
    """The session that this run uses.

    A session that is active in this process is used again; under spark-submit the builder finds the cluster's
    settings. Otherwise an embedded `local[threads]` is started, which needs Java; what it shuffles is in a folder
    of its own below `local_dir`.

    Raises:
        SessionError: Java is missing or too old, the packages do not fit together, or the endpoint does not answer.
        OSError: `local_dir` is missing or not writable.
    """
    from pyspark.sql import SparkSession

    if options.remote:
        spark = _connect(options.remote)
    else:
        spark = SparkSession.getActiveSession() or _build(options, threads, local_dir)
    for key, value in {**_RUNTIME, **options.spark_conf}.items():
        if key.startswith("spark.sql."):
            spark.conf.set(key, value)
    return spark


def _build(options: RunOptions, threads: int | None, local_dir: str | None) -> SparkSession:
    from pyspark.sql import SparkSession

    _check_versions()
    logs.quiet_gateway()
    # PySpark takes it for a wish that outranks a master; the command line has heard it already.
    os.environ.pop("SPARK_REMOTE", None)
    builder = SparkSession.builder
    if not _is_submitted():
        from spark_jobs.execute import java

        problem = java.problem()
        if problem:
            raise SessionError(problem)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        _share_package()
        java.prepare()
        master = options.master or f"local[{threads or '*'}]"
        builder = builder.master(master).appName("clinker")
        folders = {"spark.local.dir": _shuffle_folder(local_dir)} if local_dir else {}
        tells_errors = logs.LEVELS.get(options.log_level, logging.INFO) <= logging.DEBUG
        for key, value in {**_EMBEDDED, **java.settings(tells_errors=tells_errors), **folders}.items():
            builder = builder.config(key, value)
    for key, value in options.spark_conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _is_submitted() -> bool:
    """Whether spark-submit has started the JVM and this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def local_dir(options: RunOptions, spill_root: str) -> str:
    """Where Spark keeps what it shuffles, as messages name it: `storage.spill.dir` counts where it is embedded."""
    if options.remote or _is_submitted() or not (options.master or "local").startswith("local"):
        return "a folder of spark.local.dir"
    return options.spark_conf.get("spark.local.dir", spill_root)


@cache
def _shuffle_folder(root: str) -> str:
    """Where this process's JVM keeps what it shuffles, locked: what is left of a killed one goes with the next run.

    The JVM and its session serve every run of the process, so the folder stays as long as that.
    """
    folder = SpillFolder.open(root, is_configured=True)
    atexit.register(folder.close)
    return str(folder.path)


def _share_package() -> None:
    """Python workers of an embedded session import this very package."""
    import spark_jobs

    root = os.path.dirname(os.path.dirname(os.path.abspath(spark_jobs.__file__)))
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def _connect(url: str) -> SparkSession:
    """A session of a Connect endpoint; the engine's code travels as an artifact."""
    from spark_jobs import bundle

    try:
        spark: SparkSession = connect.open_session(url)
        if not getattr(spark, "_clinker_artifacts", False):
            spark.addArtifacts(str(bundle.build_temporary()), pyfile=True)
            spark._clinker_artifacts = True
    except OSError:
        raise
    except Exception as error:
        raise SessionError(connect.reason(url, error), is_transient=connect.is_transient(error)) from error
    return spark


def _check_versions() -> None:
    """`pyspark-client` of another version overwrites files of `pyspark`: stop before the first cryptic error."""
    import pyspark

    try:
        installed = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return
    if installed != pyspark.__version__:
        raise SessionError(
            f"pyspark {installed} is installed, but its files say {pyspark.__version__}: pyspark-client of another "
            "version has overwritten them; install both at one version: "
            f"pip install --force-reinstall pyspark=={installed} pyspark-client=={installed}"
        )


def describe(spark: SparkSession) -> Mapping[str, str | None]:
    """The session's identity for metrics and results."""
    if connect.is_session(spark):
        return {
            "application_id": spark.conf.get("spark.app.id", None),
            "spark_version": spark.version,
            "master": "connect",
        }
    context = spark.sparkContext
    return {"application_id": context.applicationId, "spark_version": spark.version, "master": context.master}
