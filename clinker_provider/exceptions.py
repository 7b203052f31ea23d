"""The exceptions of Clinker tasks.

The base of a class determines whether Airflow may retry: `AirflowFailException` ends the task at once. `exit_code` is
the run's exit code, or None when the run left none.
"""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from spark_jobs.contract import ExitCode


class ClinkerError(AirflowException):
    """Any failure of a Clinker task."""

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ClinkerConfigError(ClinkerError, AirflowFailException):
    """The pipeline is wrong (exit 1). A retry would find the same; it is not made."""


class ClinkerEvaluationError(ClinkerError, AirflowFailException):
    """The data broke the pipeline's rules (exit 3). A retry would find the same; it is not made."""


class ClinkerDeadLettersError(ClinkerError, AirflowFailException):
    """The run left dead letters, and the task does not accept them (`on_partial`, `dlq_threshold`)."""


class ClinkerFinalError(ClinkerError, AirflowFailException):
    """The run ended with an exit code that fails the task without retry, because the user chose so (`exit_codes`)."""


class ClinkerRetriedError(ClinkerError):
    """The run ended with an exit code that may be retried, because the user chose so (`exit_codes`)."""


class ClinkerPublishedError(ClinkerError, AirflowFailException):
    """The run has published its files, but a later step failed. A retry would run everything once more."""


class ClinkerIOError(ClinkerError):
    """A file or a folder could not be used (exit 4). A retry may succeed."""


class ClinkerExistsError(ClinkerError, AirflowFailException):
    """An output is there already and may not be replaced (exit 4, E902). No retry is made: it would find the same."""


class ClinkerUnsharedError(ClinkerError, AirflowFailException):
    """An executor does not see a file that the driver sees (exit 4, E909). No retry is made: it would find the same."""


class ClinkerInterrupted(ClinkerError):
    """The run was stopped from outside (exit 130, or ended by a signal). A retry may succeed."""


class ClinkerResultMissing(ClinkerError):
    """The job left no result record: what `spark-submit` returned does not count. A retry may succeed."""


class ClinkerConnectionError(ClinkerError, AirflowFailException):
    """The Spark connection is missing or says nothing usable."""


class ClinkerPipelineInvalid(ValueError):
    """The pipeline or a parameter of the task is wrong. Raised when a DAG file is parsed; becomes an import error."""


_OF_COMMANDS: dict[int, type[ClinkerError]] = {
    ExitCode.CONFIG: ClinkerConfigError,
    ExitCode.EVALUATION: ClinkerEvaluationError,
    ExitCode.IO: ClinkerIOError,
}


def of_command(name: str, code: int, tail: str) -> ClinkerError:
    """The exception for a command that ended with this code; `tail` are its last lines."""
    return _OF_COMMANDS.get(code, ClinkerInterrupted)(tail or f"{name} ended with {code}", exit_code=code)
