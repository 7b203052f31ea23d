"""Jobs in this process, stage by stage, without Spark and its JVM: for small inputs, where a start would take longest.

What tasks do is the same, and so are the results. Shuffle records are sorted as Spark would sort them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.execute import report
from spark_jobs.execute.spark.spread import rows_of
from spark_jobs.execute.tasks import shuffle_records
from spark_jobs.execute.tasks import stage as stages
from spark_jobs.nodes import worker_cache

if TYPE_CHECKING:
    from spark_jobs.execute.tasks.spec import JobSpec


def run(spec: JobSpec) -> list[report.TaskReport]:
    """Run a job. Returns the reports of its tasks, by stage and number."""
    try:
        return _run(spec)
    finally:
        worker_cache.drop()


def _run(spec: JobSpec) -> list[report.TaskReport]:
    rows: list[dict[str, Any]] = []
    for number in range(len(spec.loads)):
        rows += rows_of(stages.read_loads(spec, [number], f"0-{number}"))
    for stage in range(1, spec.job.stages):
        given: list[dict[str, Any]] = []
        for slot in range(spec.job.slots(stage)):
            mine = sorted(
                (row for row in rows if row["slot"] == slot), key=lambda row: (row["exchange"], row["ordinal"])
            )
            batches = [pa.RecordBatch.from_pylist([row], schema=shuffle_records.SCHEMA) for row in mine]
            given += rows_of(stages.open_records(spec, stage, slot, f"{stage}-{slot}", iter(batches)))
        rows = given
    reports = [each for row in rows for each in report.decode(row["payload"])]
    return sorted(reports, key=lambda each: (each.stage, each.number))
