"""A job on Spark: a chain of levels over parcels, the same on embedded, submitted and Connect sessions."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.execute.spark import cancellation, spread
from spark_jobs.execute.tasks import level as levels
from spark_jobs.execute.tasks import parcels, report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.execute.tasks.spec import JobSpec


def run(spark: SparkSession, spec: JobSpec) -> list[report.TaskReport]:
    """Run a job; gives the reports of its tasks, by level and number. An interrupt cancels it.

    All that comes to the driver are the reports: records stay in part files and shuffles.
    """
    return cancellation.cancellable(spark, partial(_reports, spark, spec))


def _reports(spark: SparkSession, spec: JobSpec) -> list[report.TaskReport]:
    job = spec.job
    pickled = pickle.dumps(spec, protocol=pickle.HIGHEST_PROTOCOL)
    frame: DataFrame = spread.numbers(spark, len(spec.packs))
    frame = frame.mapInArrow(partial(levels.run_level, pickled, 0), parcels.DDL)
    for level in range(1, job.levels):
        # A payload is some megabytes: the row count that Spark moves at once must be small.
        frame = frame.repartitionById(job.slots(level), "slot").sortWithinPartitions("exchange", "ordinal")
        frame = frame.mapInArrow(partial(levels.run_level, pickled, level), parcels.DDL)
    payloads = frame.select("payload").toArrow().column("payload").to_pylist()
    reports = [report.TaskReport.decode(payload) for payload in payloads]
    return sorted(reports, key=lambda each: (each.level, each.number))
