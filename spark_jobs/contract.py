"""The contract between the job and the Airflow side: exit codes, the result record, the sentinel line.

Standard library only: the provider imports this module, and so does everything that runs on Spark.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

RESULT_SCHEMA_VERSION = 1
#: The version of metrics files that runs write and collections take.
METRICS_SCHEMA_VERSION = 1
RESULT_FILE = "result.json"
#: The job prints one line that starts with this word, followed by the result record as compact JSON.
RESULT_SENTINEL = "CLINKER_RESULT"
#: Options that only a scheduler gives to the job: the name of this attempt, and the folder for its result record.
EXECUTION_ID_OPTION = "--execution-id"
WORK_DIR_OPTION = "--work-dir"
#: The requester of a run and the name of the run: all attempts at one run have the same names.
ONCE_OPTION = "--once"
#: Says that an attempt with these names came before: only then may what it has published stand for this one.
RETRY_OPTION = "--retry"
#: Spark properties the provider sets, so that a run is found by its execution id in the history server.
EXECUTION_ID_CONF = "spark.clinker.executionId"
#: The variable by which the provider finds a run's processes to end them. Processes that outlive the run lack it.
EXECUTION_ID_VARIABLE = "CLINKER_EXECUTION_ID"
#: How the JVM of an embedded Spark starts quickly: it compiles in a hurry, for the work is done in Arrow.
EMBEDDED_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
#: Spark properties for a master `local[…]` that nobody set otherwise: one process serves one run, so it needs no pages,
#: listens on the machine itself alone, and answers nobody who does not know the secret that Spark draws for the run.
#: Without pages a small run takes a third less time.
EMBEDDED_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.authenticate": "true",
    "spark.driver.extraJavaOptions": EMBEDDED_JVM_OPTIONS,
    "spark.log.level": "WARN",
}
#: The same for the driver of an application on a cluster, which does nothing but schedule; options of users stand
#: after it.
CLIENT_CONF = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -Xshare:auto"}
#: For the JVM that puts the command line of `spark-submit` together, by its environment variable.
LAUNCHER_VARIABLE, LAUNCHER_OPTIONS = "SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class ExitCode(IntEnum):
    """The exit code of a run (docs/semantics/runs.md, "Exit codes")."""

    SUCCESS = 0
    CONFIG = 1
    DEAD_LETTERS = 2
    EVALUATION = 3
    IO = 4
    INTERRUPTED = 130


#: The file and source of records that do not come from a single file: groups, and merged streams.
MERGED = "<merged>"


class Status(StrEnum):
    """The word for an exit code, as XCom and the result record carry it."""

    SUCCESS = "success"
    PARTIAL_SUCCESS = "partial_success"
    FAILED = "failed"


def status_of(exit_code: int) -> Status:
    """The status word that belongs to an exit code."""
    if exit_code == ExitCode.SUCCESS:
        return Status.SUCCESS
    if exit_code == ExitCode.DEAD_LETTERS:
        return Status.PARTIAL_SUCCESS
    return Status.FAILED
