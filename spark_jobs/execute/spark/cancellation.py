"""Work on Spark that an interrupt can stop: at once for the run, and soon after for its tasks."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, TypeVar

from spark_jobs.execute import interrupts, logs
from spark_jobs.execute.spark import executors

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_Given = TypeVar("_Given")
#: The time in seconds that cancelling, and the end of cancelled work, may take before a run ends without them.
_TIMEOUT_S = 5.0
_PAUSE_S = 1.0


def cancellable(spark: SparkSession, job: Callable[[], _Given]) -> _Given:
    """Run `job`; cancel its Spark jobs if an interrupt arrives meanwhile, or if no executor arrives for long.

    The job has a thread of its own, and this one only waits: an interrupt in the middle of a talk with the JVM would
    be held up until the Spark job ends (PySpark asks the JVM for its result in a `finally`). In a session that
    outlives the run, jobs that nobody cancels would go on.
    """
    tag = f"clinker-{uuid.uuid4()}"
    given: list[_Given] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            spark.addTag(tag)
            given.append(job())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            raised.append(error)

    worker = threading.Thread(target=work, name=tag, daemon=True)
    worker.start()
    try:
        with executors.watch_executors(spark) as look:
            while worker.is_alive():
                worker.join(_PAUSE_S)
                interrupts.check()
                look()
    except BaseException:
        # An endpoint that is gone must not keep the run from ending.
        stopping = threading.Thread(target=_cancel, args=(spark, tag), daemon=True)
        stopping.start()
        stopping.join(_TIMEOUT_S)
        if not stopping.is_alive():
            worker.join(_TIMEOUT_S)
        raise
    if raised:
        raise raised[0]
    return given[0]


def _cancel(spark: SparkSession, tag: str) -> None:
    try:
        spark.interruptTag(tag)
    except Exception as error:  # noqa: BLE001 - the run ends anyway, for a better reason
        logs.LOG.debug("the jobs could not be cancelled: %s", error)
