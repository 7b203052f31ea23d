"""Jobs in this process, level by level, without Spark and its JVM: for small inputs, where a start would take longest.

What tasks do is the same, and so are the results. Shuffle records are sorted as Spark would sort them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.execute.spark.spread import rows_of
from spark_jobs.execute.tasks import level as levels
from spark_jobs.execute.tasks import report, shuffle_records

if TYPE_CHECKING:
    from spark_jobs.execute.tasks.spec import JobSpec


def run(spec: JobSpec) -> list[report.TaskReport]:
    """Run a job; gives the reports of its tasks, by level and number."""
    rows: list[dict[str, Any]] = []
    for number in range(len(spec.loads)):
        rows += rows_of(levels.read_loads(spec, [number], f"0-{number}"))
    for level in range(1, spec.job.levels):
        given: list[dict[str, Any]] = []
        for slot in range(spec.job.slots(level)):
            mine = sorted(
                (row for row in rows if row["slot"] == slot), key=lambda row: (row["exchange"], row["ordinal"])
            )
            batches = [pa.RecordBatch.from_pylist([row], schema=shuffle_records.SCHEMA) for row in mine]
            given += rows_of(levels.open_records(spec, level, slot, f"{level}-{slot}", iter(batches)))
        rows = given
    reports = [each for row in rows for each in report.decode(row["payload"])]
    return sorted(reports, key=lambda each: (each.level, each.number))
