"""Executors look for local paths before any data is read, so a missing mount is reported at once.

The run's folders have its execution id in their names, so a folder of another machine is none of them.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.disk.shared_paths import UNSHARED, NotShared
from spark_jobs.execute import verdict
from spark_jobs.execute.spark import connect, spread
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.execute.scratch import Scratch
    from spark_jobs.plan import plan as plans

#: So many tasks look at most, so that each executor has some.
_MOST_TASKS = 64
_TASKS_ON_SERVER = 8
_ADVICE = "mount it there, or use a store (s3://bucket/…) in its place"


@dataclass(frozen=True)
class _Local:
    """A path that tasks need, and whether they write below it; the node that needs it, empty for the run itself."""

    path: str
    is_written: bool
    node: str = ""


def refuse_unseen(
    spark: SparkSession, plan: plans.Plan, found: Inputs, parts: Mapping[str, str], scratch: Scratch
) -> None:
    """End the run where an executor does not see a local path that the driver sees.

    Args:
        spark: a session whose tasks run elsewhere.
        plan: for the places of its nodes.
        found: the inputs, of which the first file of each source is looked for.
        parts: the folders for the parts of outputs, by output.
        scratch: the scratch location.

    Raises:
        RunFailed: an executor does not see one, or may not use it (E909).
    """
    wanted = [*_wanted(found, parts, scratch)]
    if not wanted:
        return
    for missing in spread.parallel_map(spark, partial(_missing, tuple(wanted)), range(_tasks(spark))):
        for each, unseen in missing:
            if (text := unseen.explained()) is not None:
                raise verdict.broken(plan, UNSHARED, f"{text}: {_ADVICE}", each.node)


def _wanted(found: Inputs, parts: Mapping[str, str], scratch: Scratch) -> Iterator[_Local]:
    if scratch.is_local:
        yield _Local(scratch.folder, is_written=True)
    for output, folder in parts.items():
        if not location.is_uri(folder):
            yield _Local(folder, is_written=True, node=output)
    for source, scan in found.scans.items():
        files = (each.file for each in scan.files)
        first = next((each for each in files if not each.is_object and each.table is None), None)
        if first is not None:
            yield _Local(first.path, is_written=False, node=source)


def _tasks(spark: SparkSession) -> int:
    if isinstance(spark, spread.InProcess) or connect.is_session(spark):
        return _TASKS_ON_SERVER
    cores: int = spark.sparkContext.defaultParallelism
    return min(max(cores, 1), _MOST_TASKS)


def _missing(wanted: Sequence[_Local], _: int) -> list[tuple[_Local, NotShared]]:
    """The folders that this process does not see, or may not use."""
    missing = []
    for each in wanted:
        try:
            os.stat(each.path)
            if not os.access(each.path, os.W_OK | os.X_OK if each.is_written else os.R_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), each.path)
        except OSError as error:
            if (unseen := NotShared.of(error, each.path)) is not None:
                missing.append((each, unseen))
    return missing
