"""Explains errors that are not the user's: a message, and the place of the traceback."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from spark_jobs import result
from spark_jobs.contract import ExitCode
from spark_jobs.disk import system_errors
from spark_jobs.execute.spark import connect
from spark_jobs.execute.spark.embedded import launch
from spark_jobs.execute.tasks import spill

_ADVICE = "--log-level debug shows the traceback"
_WORKER_ADVICE = "the system does that when memory runs out: lower memory.limit, or --threads"
_JVM_ADVICE = "give it more memory (--conf spark.driver.memory=2g), or find out what killed it"
_SERVER_ADVICE = "see whether it runs, and its log"
_PYTHON_ADVICE = (
    "install what spark_jobs needs (pyarrow, numpy, google-re2) there, or name another Python with "
    "PYSPARK_PYTHON or --conf spark.pyspark.python=…"
)
_MASTER_ADVICE = "see whether the master runs, and why its workers could not start executors"
_DESCRIPTORS_ADVICE = "the limit of open files is too low: raise it (ulimit -n)"
_MODULE_MISSING = re.compile(r"^\s*ModuleNotFoundError: No module named '([^']+)'", re.MULTILINE)
#: Signs that a context was stopped from outside: the master is away or has given up, or somebody killed it.
_APPLICATION_ENDED = re.compile(
    r"SparkContext was shut down|stopped SparkContext|Master removed our application|All masters are unresponsive"
    r"|Application has been killed"
)
_TRACEBACK = "Traceback (most recent call last):"
#: Spark's words around the cause: `Job aborted due to stage failure: … Lost task 0.0 in stage 1.0 (TID 2) (host …): `.
_LOST_TASK = re.compile(r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^)]*\): ")
_CALL_WITHOUT_OUTCOME = re.compile(r"An error occurred while calling \S+")
#: The message of a full volume in Java: the strerror(3) of ENOSPC and EDQUOT.
_VOLUME_FULL = re.compile(r"No space left on device|Disk quota exceeded")
#: The message of Java for a file in one of Spark's own folders that is gone or has become read-only.
_FOLDER_GONE = re.compile(
    r"(?:NoSuchFileException|AccessDeniedException): (?P<gone>\S+)/blockmgr-"
    r"|(?P<refused>/\S+)/blockmgr-[^\s:]+:? \(?(?:No such file or directory|Permission denied|Read-only file system)"
)
#: A system error as Python writes it, of any class. Errors of Arrow have no number in front.
_SYSTEM_ERROR = re.compile(r"[\w.]+: \[Errno (?P<number>\d+)\] |OSError: ")
#: The message in Java: strerror(3) of EMFILE and ENFILE.
_NO_DESCRIPTORS = re.compile(r"Too many open files")
_PACKAGE = Path(__file__).resolve().parents[2]


def explain(error: Exception, local_dir: str) -> tuple[ExitCode, result.RunError]:
    """The end of a run that Spark or a bug has stopped: E904 for errors of Spark, E905 for errors of the engine.

    The message has the first line of the cause and, for a bug, the place in the engine that raised it. A full volume
    is E321 and a spill folder that is gone E900, whether we or Spark write there.

    Args:
        error: what ended it.
        local_dir: Spark's folder for shuffle files.
    """
    return ExitCode.IO, _error(error, local_dir)


def _error(error: Exception, local_dir: str) -> result.RunError:
    text = str(error)
    if _is_connection_lost(error):
        said = launch.last_words() or _first_line(text)
        return _of_spark(f"the connection to Spark was lost, its JVM has ended: {said}", _JVM_ADVICE)
    if type(error).__module__.split(".")[0] not in ("pyspark", "py4j", "grpc"):
        cause = f"{type(error).__name__}: {_first_line(text)}"
        return result.RunError("E905", f"internal error: {cause}{_raised_at(error)}; {_ADVICE}")
    if connect.is_lost(error):
        return _of_spark(
            f"the connection to the Spark Connect server was lost: {connect.message_of(error)}", _SERVER_ADVICE
        )
    if missing := _MODULE_MISSING.search(text):
        return _of_spark(f"the Python of a worker has no module '{missing[1]}'", _PYTHON_ADVICE)
    if _APPLICATION_ENDED.search(text):
        return _of_spark(f"the application was ended: {_cause(text)}", _MASTER_ADVICE)
    if _TRACEBACK in text:
        return _of_worker(text)
    if _VOLUME_FULL.search(text):
        return result.RunError("E321", spill.volume_full(local_dir))
    cause = _cause(text)
    if gone := _FOLDER_GONE.search(text):
        return result.RunError("E900", spill.folder_gone(gone["gone"] or gone["refused"], cause))
    if "exited unexpectedly" in cause:
        return _of_spark("a Python worker was killed", _WORKER_ADVICE)
    if "OutOfMemoryError" in cause:
        return _of_spark(f"Spark's JVM ran out of memory: {cause}", _JVM_ADVICE)
    advice = _DESCRIPTORS_ADVICE if _NO_DESCRIPTORS.search(cause) else _ADVICE
    return _of_spark(f"Spark could not finish a job: {cause}", advice)


def _is_connection_lost(error: Exception) -> bool:
    """True if Spark's JVM is out of reach.

    py4j says so plainly before it has sent a call. After that it raises an error of its general class, in whose words
    nothing follows the name of the call.
    """
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return True
    return type(error).__name__ == "Py4JError" and _CALL_WITHOUT_OUTCOME.fullmatch(str(error)) is not None


def _cause(text: str) -> str:
    """The first line of what lost a task; else the last of the JVM's causes, without the wrapping."""
    lost = _LOST_TASK.split(text)
    if len(lost) > 1:
        return _first_line(lost[-1])
    causes = re.findall(r"^(?:Caused by)?: (\S.*)$", text, re.MULTILINE)
    return str(causes[-1]) if causes else _first_line(text)


def _of_spark(cause: str, advice: str) -> result.RunError:
    return result.RunError("E904", f"{cause}; {advice}")


def _of_worker(text: str) -> result.RunError:
    """The end of a Python worker's traceback: the exception, and where the engine raised it."""
    lines = text.split(_TRACEBACK)[-1].splitlines()
    raised = next((line for line in lines if line and not line.startswith(" ")), lines[-1] if lines else "")
    files = re.findall(r'File "([^"]*spark_jobs/[^"]*)", line (\d+), in (\S+)', text)
    if not files:
        return _of_spark(f"a Python worker failed: {_first_line(raised)}", _ADVICE)
    path, line, function = files[-1]
    where = f" ({path[path.rindex('spark_jobs/') :]}:{line} in {function})"
    if raised.startswith("MemoryError") or "ArrowMemoryError" in raised:
        return _of_spark(f"a task ran out of memory: {_first_line(raised)}{where}", _WORKER_ADVICE)
    if found := _SYSTEM_ERROR.match(raised):
        remedy = system_errors.remedy(OSError(int(found["number"] or 0), ""))
        return result.RunError("E900", f"a task could not read or write: {_first_line(raised)}{remedy}")
    return result.RunError("E905", f"internal error in a task: {_first_line(raised)}{where}; {_ADVICE}")


def _raised_at(error: Exception) -> str:
    """The innermost line of the engine in a traceback."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            return f" ({path.relative_to(_PACKAGE.parent)}:{frame.lineno} in {frame.name})"
    return ""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
