"""The outcome of a finished `spark-submit` for the task: pure logic, free of Airflow.

The result record of this very execution decides. A return code without a record is a failure, whatever the number:
Python, too, returns 2, for a missing file. A record of success with a return code that contradicts it is a failure,
because something died after the record was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from spark_jobs import contract

if TYPE_CHECKING:
    from spark_jobs.result import RunResult

#: From here on a return code stands for a signal (128 + its number); `subprocess` gives the negative number.
_FIRST_SIGNAL_CODE = 128


class Verdict(Enum):
    """The verdict about a task, with the kind of failure."""

    SUCCESS = "success"
    PARTIAL_SUCCESS = "partial_success"
    CONFIG = "config"
    EVALUATION = "evaluation"
    IO = "io"
    UNSHARED = "unshared"
    EXISTS = "exists"
    INTERRUPTED = "interrupted"
    NO_RESULT = "no_result"

    @property
    def is_success(self) -> bool:
        """Whether the task succeeds."""
        return self in (Verdict.SUCCESS, Verdict.PARTIAL_SUCCESS)

    @property
    def may_retry(self) -> bool:
        """Whether a failure can be of the kind that passes: not when pipeline or data are wrong."""
        return self in (Verdict.IO, Verdict.INTERRUPTED, Verdict.NO_RESULT)


@dataclass(frozen=True)
class Outcome:
    """The verdict, the exit code to report, and for failures the reason as one sentence or more.

    The exit code is the record's. Without a usable record it is 130 after a signal and else 4, never the number that
    `spark-submit` returned: 2 would read as success.
    """

    verdict: Verdict
    exit_code: int
    reason: str = ""

    @property
    def status(self) -> contract.Status:
        """The word for it, as XCom carries it."""
        if not self.verdict.is_success:
            return contract.Status.FAILED
        return contract.status_of(self.exit_code)


_VERDICTS: dict[int, Verdict] = {
    contract.ExitCode.SUCCESS: Verdict.SUCCESS,
    contract.ExitCode.CONFIG: Verdict.CONFIG,
    contract.ExitCode.DEAD_LETTERS: Verdict.PARTIAL_SUCCESS,
    contract.ExitCode.EVALUATION: Verdict.EVALUATION,
    contract.ExitCode.IO: Verdict.IO,
    contract.ExitCode.INTERRUPTED: Verdict.INTERRUPTED,
}

_HEADLINES = {
    Verdict.CONFIG: "the pipeline is not valid",
    Verdict.EVALUATION: "records broke the pipeline",
    Verdict.IO: "a file could not be read or written",
    Verdict.EXISTS: "an output is there already",
    Verdict.UNSHARED: "driver and executors do not see the same files",
    Verdict.INTERRUPTED: "the run was interrupted",
}
#: Options of `clinker run` that messages propose, and the operator's parameters for them.
_PARAMETERS = {
    "--allow-absolute-paths": "`allow_absolute_paths=True`",
    "--base-dir": "`base_dir`",
    "--channel": "`channel`",
    "--conf": "an entry of `conf`",
    "--error-threshold": "`error_threshold`",
    "--force": "`force=True`",
    "--master": "`master`, or the address in the connection,",
    "--memory-limit": "`memory_limit`",
    "--rules-path": "`rules_path`",
    "--threads": "`threads`",
}
#: The same for settings of the pipeline.
_SETTINGS = {
    "memory.limit": "`memory_limit`",
    "spark.driver.memory": "`driver_memory`",
    "spark.executor.memory": "`executor_memory`",
}
_OPTION = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*|(?<![\w.])(?:spark\.(?:driver|executor)\.memory|memory\.limit)\b")
#: Headlines of errors that concern neither a pipeline nor a file, by diagnostic code.
_HEADLINES_OF_CODES = {
    "E221": "a service could not be read",
    "E222": "a file does not have the declared columns",
    "E310": "the run needs more memory than it has",
    "E312": "the run needs more memory than it has",
    "E901": "Spark could not be started or reached",
    "E904": "Spark ended the work",
    "E905": "the engine failed",
    "E910": "an object store refused or did not answer",
    "E911": "a database refused or did not answer",
    "E912": "a table could not be read or written",
}
#: The signal that cannot be caught, which the kernel sends where memory is short.
_KILL = 9
_OUT_OF_MEMORY = (
    "\nIf nobody ended it, the kernel did because memory was short (its log, `dmesg`, says so): lower `memory_limit`, "
    "`driver_memory` or `threads`"
)
#: Outputs of `spark-submit` that tell why no job was started, and the remedy.
_OUTPUTS = {
    re.compile(r"JAVA_HOME is not set|bin/java: (?:No such file|not found|Permission denied)"): (
        "Java was not found: install Java 17 or newer on the worker, or let `JAVA_HOME` name it, in the worker's "
        "environment or in `env_vars`; `clinker doctor` shows the Java that is found"
    ),
    re.compile(r"UnsupportedClassVersionError"): (
        "Java is too old: install Java 17 or newer on the worker, or let `JAVA_HOME` name it, in the worker's "
        "environment or in `env_vars`; `clinker doctor` shows the Java that is found"
    ),
    re.compile(r'Cannot run program "[^"]*python[^"]*"'): (
        "the Python that Spark is to start is not there: see `PYSPARK_PYTHON` in `env_vars` and in the worker's "
        "environment, and `spark.pyspark.python` in `conf`"
    ),
    re.compile(r"java\.lang\.OutOfMemoryError|insufficient memory for the Java Runtime"): (
        "the JVM of the driver has too little memory: give `driver_memory`, or a worker with more"
    ),
}
#: Errors with exit code 4 that recur at every attempt, by diagnostic code: an output that exists already, and a file
#: that the driver sees and an executor does not.
_LASTING = {"E902": Verdict.EXISTS, "E909": Verdict.UNSHARED}


def decide(
    return_code: int, record: RunResult | None, *, is_faithful: bool = True, was_killed: bool = False
) -> Outcome:
    """The outcome of a run.

    Args:
        return_code: what `spark-submit` returned; negative for a signal, as `subprocess` has it.
        record: the result record of this execution, if the job left one.
        is_faithful: whether `spark-submit` passes the job's own exit code on. It does in local and client mode;
            in cluster modes every failure is 1 and, on Kubernetes, 0 says nothing.
        was_killed: whether this side ended the run's processes.
    """
    if record is None and was_killed:
        return Outcome(Verdict.INTERRUPTED, contract.ExitCode.INTERRUPTED, "the task was killed, and the run with it")
    if record is None and _is_signal(return_code):
        hint = _OUT_OF_MEMORY if _signal(return_code) == _KILL else ""
        reason = f"the job was ended by {_signal_text(return_code)} and left no result record{hint}"
        return Outcome(Verdict.INTERRUPTED, contract.ExitCode.INTERRUPTED, reason)
    if record is None:
        reason = f"spark-submit returned {return_code}, and the job left no result record: it never started, or it died"
        return Outcome(Verdict.NO_RESULT, contract.ExitCode.IO, reason)
    verdict = _VERDICTS.get(record.exit_code)
    if verdict is None:
        reason = f"the result record has an exit code that no run ends with: {record.exit_code}"
        return Outcome(Verdict.NO_RESULT, contract.ExitCode.IO, reason)
    if verdict is Verdict.IO and record.error:
        verdict = _LASTING.get(record.error.code, verdict)
    if not verdict.is_success:
        return Outcome(verdict, record.exit_code, _failure(verdict, record))
    if _is_signal(return_code):
        reason = f"the run reported {record.status.value}, but its process was ended by {_signal_text(return_code)}"
        return Outcome(Verdict.INTERRUPTED, contract.ExitCode.INTERRUPTED, reason)
    if is_faithful and return_code != record.exit_code:
        reason = (
            f"the run reported {record.status.value} (exit {record.exit_code}), but spark-submit returned "
            f"{return_code}: something failed after the result record was written"
        )
        return Outcome(Verdict.NO_RESULT, contract.ExitCode.IO, reason)
    return Outcome(verdict, record.exit_code)


def _failure(verdict: Verdict, record: RunResult) -> str:
    cause = f": {record.error}" if record.error else ""
    headline = _HEADLINES[verdict]
    if verdict in (Verdict.CONFIG, Verdict.IO) and record.error:
        headline = _HEADLINES_OF_CODES.get(record.error.code, headline)
    return with_parameters(f"{headline} (exit {record.exit_code}){cause}")


def with_parameters(text: str) -> str:
    """The text, with the operator's parameters in place of the command-line options and settings that it proposes."""
    written = set(_OPTION.findall(text))
    known = {**_PARAMETERS, **_SETTINGS}
    found = {option: known[option] for option in known if option in written}
    if not found:
        return text
    meanings = ", ".join(f"`{option}` is {parameter}" for option, parameter in found.items())
    return f"{text}\nIn Airflow, {meanings} of the operator"


def remedy_of(lines: str) -> str:
    """The remedy for a job that never started, as the output of `spark-submit` tells; empty if it tells none."""
    return next((remedy for pattern, remedy in _OUTPUTS.items() if pattern.search(lines)), "")


def _is_signal(return_code: int) -> bool:
    return return_code < 0 or return_code > _FIRST_SIGNAL_CODE


def _signal(return_code: int) -> int:
    return -return_code if return_code < 0 else return_code - _FIRST_SIGNAL_CODE


def _signal_text(return_code: int) -> str:
    return f"signal {_signal(return_code)}"
