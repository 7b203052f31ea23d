"""A job on Spark: a chain of stages over shuffle records, the same on embedded, submitted and Connect sessions."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.execute import report
from spark_jobs.execute.spark import cancellation, in_process, spread
from spark_jobs.execute.tasks import shuffle_records
from spark_jobs.execute.tasks import stage as stages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.execute.tasks.spec import JobSpec


def run(spark: SparkSession, spec: JobSpec) -> Iterable[report.TaskReport]:
    """Run a job. Returns the reports of its tasks, by stage and number, as often as asked. An interrupt cancels it.

    All that comes to the driver are the reports: records stay in part files and shuffles.
    """
    if isinstance(spark, spread.InProcess):
        return in_process.run(spec)
    return cancellation.cancellable(spark, partial(_reports, spark, spec))


def _reports(spark: SparkSession, spec: JobSpec) -> Iterable[report.TaskReport]:
    job = spec.job
    pickled = pickle.dumps(spec, protocol=pickle.HIGHEST_PROTOCOL)
    frame: DataFrame = spread.numbers(spark, len(spec.loads))
    frame = spread.mapped(frame, partial(stages.run_stage, pickled, 0), shuffle_records.SCHEMA)
    for stage in range(1, job.stages):
        # A payload is some megabytes: the row count that Spark moves at once must be small.
        frame = frame.repartitionById(job.slots(stage), "slot").sortWithinPartitions("exchange", "ordinal")
        frame = spread.mapped(frame, partial(stages.run_stage, pickled, stage), shuffle_records.SCHEMA)
    table = frame.select("ordinal", "partition", "payload").toArrow()
    return report.Reports(*(table.column(name).combine_chunks() for name in ("ordinal", "partition", "payload")))
