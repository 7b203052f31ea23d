"""The XComs of a Clinker task: their keys, and their values from a run's record. Pure, free of Airflow.

The keys of `known_before` are pushed when a run is submitted, and the application id as soon as Spark reports it. All
keys are pushed at the end of every run, failed ones included, with None for values that a run does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clinker_provider.outcome import Outcome
    from spark_jobs.result import RunResult

#: The exit code, an integer; 4 when the job left no result record.
EXIT_CODE = "exit_code"
#: `success`, `partial_success` or `failed`.
STATUS = "status"
#: The dead-letter file, or None when no record died.
DLQ_PATH = "dlq_path"
#: All dead-letter files, where sources have files of their own; the first is `dlq_path`.
DLQ_PATHS = "dlq_paths"
#: The number of dead records.
DLQ_COUNT = "dlq_count"
#: Why records died: a list of dictionaries, the commonest reason first (`docs/dead_letters.md`).
DLQ_REASONS = "dlq_reasons"
#: A flat dictionary of scalars; the whole document is in the file at `metrics_path`.
METRICS = "metrics"
#: The run's metrics file, or None when no spool folder was configured.
METRICS_PATH = "metrics_path"
#: Why the task failed or was skipped, or None.
REASON = "reason"
#: The name of this attempt, also in the metrics and in Spark's history.
EXECUTION_ID = "execution_id"
#: The Spark master, or None where the connection that names it is not there.
MASTER = "master"
#: The pipeline file.
PIPELINE_PATH = "pipeline_path"
#: Spark's name for the application, or None when Spark did not come that far.
APPLICATION_ID = "application_id"
#: The execution id of an earlier attempt that had published everything, so that this one did nothing; else None.
TAKEN_FROM = "taken_from"
#: The data of the task's page besides the other XComs: the plan's picture, a digest of each node, each node's counts.
#: The first two are pushed at submission already.
ON_CALL = "on_call"
#: A small dictionary: status, exit_code, execution_id, records, output_files, dlq_path, metrics_path.
RETURN_VALUE = "return_value"

#: A longer reason is cut: XComs are rows of Airflow's database.
MOST_CHARACTERS = 4000


def known_before(*, execution_id: str, master: str | None, pipeline_path: str | None) -> dict[str, Any]:
    """The XComs of a run that is about to be submitted."""
    return {EXECUTION_ID: execution_id, MASTER: master, PIPELINE_PATH: pipeline_path}


def payload(
    outcome: Outcome,
    record: RunResult | None,
    *,
    execution_id: str,
    application_id: str | None,
    master: str | None = None,
    pipeline_path: str | None = None,
) -> dict[str, Any]:
    """All XComs of a run by their keys, plain JSON values. The reason is the run's; a task may have another one."""
    status = outcome.status.value
    dlq_path = record.dlq_path if record else None
    metrics_path = record.metrics_path if record else None
    return {
        EXIT_CODE: int(outcome.exit_code),
        STATUS: status,
        REASON: outcome.reason[:MOST_CHARACTERS] or None,
        DLQ_PATH: dlq_path,
        DLQ_PATHS: list(record.dlq_paths) or ([dlq_path] if dlq_path else []) if record else [],
        DLQ_COUNT: record.dlq_count if record else 0,
        DLQ_REASONS: [dict(reason) for reason in record.dlq_reasons] if record else [],
        METRICS: dict(record.metrics) if record else {},
        METRICS_PATH: metrics_path,
        **known_before(execution_id=execution_id, master=master, pipeline_path=pipeline_path),
        APPLICATION_ID: (record.application_id if record else None) or application_id,
        TAKEN_FROM: record.taken_from if record else None,
        RETURN_VALUE: {
            "status": status,
            "exit_code": int(outcome.exit_code),
            "execution_id": execution_id,
            "pipeline_name": record.pipeline_name if record else None,
            "records": record.records if record else {},
            "output_files": list(record.output_files) if record else [],
            "dlq_path": dlq_path,
            "metrics_path": metrics_path,
        },
    }
