"""Opens the session that runs jobs: the active one, an embedded one, the cluster's, or a Connect endpoint."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
from functools import cache
from typing import TYPE_CHECKING, cast

from spark_jobs.contract import ExitCode
from spark_jobs.disk.spill_folder import SpillFolder
from spark_jobs.execute import logs
from spark_jobs.execute.spark import authentication, connect, cores, internals, masking, masters, shipping, spread
from spark_jobs.execute.spark.embedded import java, jvm, jvm_messages, launch, prefork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from spark_jobs.plan.options import RunOptions

#: Settings that every session gets. Names: spark.apache.org/docs/latest/configuration.html
_RUNTIME = {
    # Payload frames have a few rows of some megabytes each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8",
    # A task has a batch of them in memory in addition to the unpacked records.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 20),
    # The chain of a job is fixed: adaptive execution would only run it in more jobs.
    "spark.sql.adaptive.enabled": "false",
    # Expressions that Spark interprets are ready at once, and enough for shuffle records: the work is in Arrow.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: The settings of a JVM that this process starts.
_OWN = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.python.worker.reuse": "true",
    "spark.driver.memory": "1g",
}
#: And one whose executors are in its own process: it listens on this machine alone, and answers nobody who does not
#: know the secret that Spark draws for each session and keeps in memory. Its ports have pickled tasks and records.
_EMBEDDED = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    authentication.SWITCH: "true",
}


class SessionError(Exception):
    """A session cannot be opened: the reason, and what to do.

    Nothing is as transient as an endpoint that is away; a machine without Java stays one.
    """

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.exit_code = ExitCode.IO if is_transient else ExitCode.CONFIG


def open_session(options: RunOptions, threads: int | None, spill_dir: str | None = None) -> SparkSession:
    """The session that this run uses.

    A session that is active in this process is used again; under spark-submit the builder finds the cluster's
    settings. Otherwise an embedded `local[threads]` is started, which needs Java. Its shuffle files are in a folder
    of its own below `spill_dir`, or in the system's temporary folder.

    Raises:
        SessionError: Java is missing, too old, or does not start, the packages do not fit together, Spark refuses a
            setting, or the master or the endpoint does not answer.
        OSError: `spill_dir` is missing or not writable.
    """
    if options.in_process:
        return cast("SparkSession", spread.InProcess())
    if options.remote:
        spark = _connect(options.remote)
    else:
        spark = _active(threads) or _build(options, threads, spill_dir)
    for key, value in {**_RUNTIME, **options.spark_conf}.items():
        if key.startswith(("spark.sql.", "spark.clinker.")):
            try:
                spark.conf.set(key, value)
            except Exception as error:
                if not jvm_messages.is_of_settings(str(error)):
                    raise
                raise SessionError(f"Spark rejects a setting: {jvm_messages.cause(str(error))}") from error
    return spark


def follow_threads() -> None:
    """From now on, give each run of this process as many cores as it asks for: for one that serves many runs.

    Without it the first embedded session serves all runs of a process, whatever they ask for, as a library's should.
    """
    global _follows_threads
    _follows_threads = True


_follows_threads = False


def _active(threads: int | None) -> SparkSession | None:
    """The session of this process, unless it has other cores than a run is to have: then it is stopped."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None or not _follows_threads:
        return spark
    master = spark.sparkContext.master
    if not cores.is_local(master) or cores.at_a_time(master, None) == (threads or cores.available()):
        return spark
    spark.stop()
    return None


def is_lost() -> bool:
    """True if a session of this process is unusable: its JVM has ended, or its shuffle files are gone."""
    return any(not each.is_running for each in launch.STARTED) or not all(map(os.path.isdir, _shuffle_folders))


def begin(options: RunOptions) -> None:
    """Launch the JVM of an embedded session already, when this process is going to need one.

    It is for a run whose `storage.spill.dir` is not set, and is ended when it turns out that another one is needed, or
    none.
    """
    if options.remote or launch.is_submitted() or "pyspark" in sys.modules or not internals.is_fast():
        return

    def make() -> launch.Launch | None:
        try:
            return _launch(options, None)
        except SessionError:  # reported when a session is asked for
            return None

    launch.EARLY.begin(make)


def _build(options: RunOptions, threads: int | None, spill_dir: str | None) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    _check_versions()
    logs.quiet_gateway()
    # PySpark takes it for a wish that outranks a master; the command line has obeyed it already.
    os.environ.pop("SPARK_REMOTE", None)
    ours: dict[str, str] = {}
    if not launch.is_submitted():
        launch.EARLY.wait()
        ours = {"spark.master": f"local[{threads or cores.available()}]", **_own(options, spill_dir)}
    with_theirs = {**ours, **options.spark_conf}
    if ours and not internals.has_jvm() and not internals.is_fast():
        # PySpark launches the JVM together with the session.
        _check_no_secrets(with_theirs)
        _before_launch(options)
    elif ours and not internals.has_jvm():
        launched = launch.EARLY.taken(_at_launch(options, spill_dir)) or _launch(options, spill_dir)
        try:
            internals.use(launched.gateway())
        except launch.NotStartedError as error:
            advice = "see to the memory and the options that it gets (--conf spark.driver.…, spark-defaults.conf)"
            if "No space left" in str(error):
                advice = (
                    f"free some in {spill_dir or tempfile.gettempdir()}, or point TMPDIR or storage.spill.dir elsewhere"
                )
            raise SessionError(
                f"Spark's JVM did not start: {error}; {advice}", is_transient=not jvm_messages.is_of_options(str(error))
            ) from error
    else:
        internals.connect(with_theirs)
    # The JVM knows the settings of spark-submit and the machine's defaults; on a cluster these are more than ours.
    known = {**dict(SparkConf().getAll()), **with_theirs}
    master = known.get("spark.master", "")
    if not ours and master.startswith("local"):
        jvm.request_archive()
    shipped = shipping.settings(master, known)
    if cores.is_local(master):
        # A local master under spark-submit: what nobody has set is as in a session of our own.
        alone = {"spark.ui.enabled": "false", **_EMBEDDED}
        shipped |= {key: value for key, value in alone.items() if key not in known}
    if folder := ours.get("spark.local.dir"):
        prefork.begin(folder, {**known, **shipped})
    masters.reach(master, known.get(masters.LIMIT_SETTING))
    builder = SparkSession.builder
    for key, value in {**with_theirs, **shipped}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        if not jvm_messages.is_of_spark(error):
            raise
        raise _refusal(master, error) from error
    if not cores.is_local(master):
        authentication.warn(master, known)
    shipping.ship(spark)
    return spark


def _refusal(master: str, error: Exception) -> SessionError:
    """Why a JVM that runs makes no session."""
    if masters.is_given_up(str(error)):
        return SessionError(
            f"{masters.display_address(master)} has not taken the application; {masters.ADVICE}", is_transient=True
        )
    cause = jvm_messages.cause(str(error))
    advice = "see to the settings that it gets (--master, --conf, spark-defaults.conf)"
    if heap := jvm_messages.heap(str(error)):
        advice = f"Spark needs a heap of 450 MiB, so give more: --conf {heap}=1g"
    return SessionError(
        f"Spark does not start: {cause}; {advice}", is_transient=not jvm_messages.is_of_settings(str(error))
    )


def _check_no_secrets(settings: Mapping[str, str]) -> None:
    """Everybody on a machine can read command lines, and PySpark launches a JVM with its settings on one."""
    secret = [key for key, value in settings.items() if masking.is_secret_setting(key, value)]
    if secret:
        raise SessionError(
            f"{', '.join(secret)} would stand on a command line, which others can read: "
            f"{internals.SWITCH_VARIABLE}=off leaves Spark's JVM to PySpark; set it in spark-defaults.conf instead"
        )


def _launch(options: RunOptions, spill_dir: str | None) -> launch.Launch:
    _before_launch(options)
    folder = _shuffle_folder(spill_dir) if _is_local(options) else None
    return launch.Launch(_at_launch(options, spill_dir), folder, is_shown=_logs_errors(options) or jvm.is_configured())


def _before_launch(options: RunOptions) -> None:
    """Check that a JVM can start. Raises `SessionError` where Java is missing."""
    problem = java.problem()
    if problem:
        raise SessionError(problem)
    # PySpark looks at the variable alone.
    if python := options.spark_conf.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jvm.prepare()


def _at_launch(options: RunOptions, spill_dir: str | None) -> dict[str, str]:
    """The settings that a JVM of this process gets at launch: all but the number of cores."""
    return {**_own(options, spill_dir), **options.spark_conf}


def _own(options: RunOptions, spill_dir: str | None) -> dict[str, str]:
    """The settings of a JVM that this process starts."""
    folder = _shuffle_folder(spill_dir) if _is_local(options) else None
    own = {"spark.app.name": "clinker", **_OWN, **jvm.settings(logs_errors=_logs_errors(options), temporary=folder)}
    if options.master:
        own["spark.master"] = options.master
    if folder is None:
        return own
    own |= {**_EMBEDDED, "spark.local.dir": folder}
    if not cores.is_local(options.master or "local"):
        del own[authentication.SWITCH]
    return own


def _logs_errors(options: RunOptions) -> bool:
    return logs.LEVELS.get(options.log_level, logging.INFO) <= logging.DEBUG


def _is_local(options: RunOptions) -> bool:
    return (options.master or "local").startswith("local")


def setting(options: RunOptions, name: str) -> str | None:
    """A setting of Spark that was given by the command line, or to spark-submit."""
    if not launch.is_submitted():
        return options.spark_conf.get(name)
    from pyspark import SparkConf

    internals.connect()
    return {**dict(SparkConf().getAll()), **options.spark_conf}.get(name)


def is_on_cluster(options: RunOptions) -> bool:
    """True if the session may have to wait for a cluster, as far as that is known before it is there."""
    return not options.remote and (launch.is_submitted() or not _is_local(options))


def is_certainly_local(options: RunOptions) -> bool:
    """True if all tasks will run on the driver's machine, as far as known before there is a session."""
    return options.in_process or not (options.remote or is_on_cluster(options))


def is_local(spark: SparkSession) -> bool:
    """True if a session runs all tasks on the driver's machine."""
    if isinstance(spark, spread.InProcess):
        return True
    return not connect.is_session(spark) and cores.is_local(spark.sparkContext.master)


def local_dir(options: RunOptions, spill_root: str) -> str:
    """The folder of Spark's shuffle files, for messages: `storage.spill.dir` applies if Spark is embedded."""
    if options.remote or launch.is_submitted() or not _is_local(options):
        return "a folder of spark.local.dir"
    return options.spark_conf.get("spark.local.dir", spill_root)


_shuffle_folders: list[str] = []


@cache
def _shuffle_folder(spill_dir: str | None) -> str:
    """The folder of this JVM's shuffle and temporary files; locked.

    The JVM and its session serve every run of the process, so the folder stays as long as the process. It also holds
    the remains of a killed JVM. The next run with the same `storage.spill.dir` removes the folder of a killed process.
    """
    folder = SpillFolder.open(spill_dir or tempfile.gettempdir())
    atexit.register(folder.close)
    _shuffle_folders.append(str(folder.path))
    return str(folder.path)


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
    from importlib import metadata

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
    if isinstance(spark, spread.InProcess):
        return {"application_id": None, "master": "in-process"}
    if connect.is_session(spark):
        return {
            "application_id": spark.conf.get("spark.app.id", None),
            "spark_version": spark.version,
            "master": "connect",
        }
    context = spark.sparkContext
    return {"application_id": context.applicationId, "spark_version": spark.version, "master": context.master}
