"""Watches for clusters that provide no executor: a notice after seconds, and the end of the run after minutes.

Spark waits for ever, and says so in a log that the user does not see. Only its status is queried here.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.execute import logs
from spark_jobs.execute.spark import connect, internals
from spark_jobs.execute.verdict import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

#: The time that a run waits for tasks to start, as Spark writes times (`90s`, `5min`, `2h`); 0 is for ever.
LIMIT_SETTING = "spark.clinker.executorsTimeout"
LIMIT_S = 300.0
NOTICE_AFTER_S = 10.0
#: A JVM takes seconds, and a loaded machine some more.
START_S = 30.0
_NOTICE_EVERY_S = 60.0
LOOK_EVERY_S = 2.0
_TIME = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def limit_s(setting: str | None, name: str = LIMIT_SETTING, usual: float = LIMIT_S) -> float:
    """The seconds that a setting's value means; the default if it is absent or invalid."""
    found = _TIME.fullmatch((setting or "").strip().lower())
    if found is None:
        if setting:
            logs.LOG.warning("%s: %r is not a time such as 90s or 5min; using %.0f s", name, setting, usual)
        return usual
    return int(found[1]) * _UNITS[found[2] or "s"]


class StartupWatch:
    """Watches how long a run has waited: shows notices now and then, and ends the wait after the limit and a notice."""

    def __init__(self, limit: Callable[[], float], notice_after_s: float = NOTICE_AFTER_S) -> None:
        self._limit = limit
        self._notice_after_s = notice_after_s
        self._began: float | None = None
        self._noticed_at: float | None = None

    def look(self, waits_for: str | None) -> None:
        """Note whether something is waited for, in words that follow a time; None if all goes on.

        Raises:
            RunFailed: it has been waited for too long.
        """
        now = time.monotonic()
        if waits_for is None:
            if self._noticed_at is not None:
                logs.LOG.warning("the work goes on")
            self._began = self._noticed_at = None
            return
        self._began = self._began or now
        waited = now - self._began
        if waited < self._notice_after_s:
            return
        limit = self._limit()
        if limit and waited >= limit and self._noticed_at is not None:
            advice = f"--conf {LIMIT_SETTING}=… waits longer"
            raise RunFailed(ExitCode.IO, "E904", f"for {waited:.0f} s {waits_for}; {advice}")
        if self._noticed_at is None or now - self._noticed_at >= _NOTICE_EVERY_S:
            self._noticed_at = now
            until = f", for {max(limit - waited, 0):.0f} s more" if limit else ""
            logs.LOG.warning("for %.0f s %s; waiting%s", waited, waits_for, until)


@contextmanager
def watch_executors(spark: SparkSession) -> Iterator[Callable[[], None]]:
    """Within, calling the yielded function ends a run whose tasks find no executor."""
    if connect.is_session(spark):
        yield from _on_server(spark)
    elif spark.sparkContext.master.startswith("local"):
        yield lambda: None
    else:
        yield from _on_cluster(spark)


def _startup_watch(spark: SparkSession) -> StartupWatch:
    return StartupWatch(lambda: limit_s(spark.conf.get(LIMIT_SETTING, None)))


def _on_cluster(spark: SparkSession) -> Iterator[Callable[[], None]]:
    """Watch from a thread, since the JVM may be slow, and the waiting thread must notice interrupts."""
    watch = _startup_watch(spark)
    waits_for: list[str | None] = [None]
    over = threading.Event()

    def ask() -> None:
        while not over.wait(LOOK_EVERY_S):
            try:
                waits_for[0] = _missing(spark.sparkContext)
            except Exception as error:  # noqa: BLE001 - the job itself reports a Spark that has ended
                logs.LOG.debug("Spark's status is not known: %s", error)
                return

    threading.Thread(target=ask, daemon=True, name="executors").start()
    try:
        yield lambda: watch.look(waits_for[0])
    finally:
        over.set()


def _missing(context: Any) -> str | None:
    """The resource that runnable tasks are waiting for; None if there are no such tasks, or if some run."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    if not known or any(stage.numActiveTasks for stage in known):
        return None
    count = internals.executors(context)
    if count > 0:
        return f"none of {count} executors of {context.master} has taken a task"
    settings = context.getConf()
    cores = settings.get("spark.executor.cores", None)
    wanted = settings.get("spark.executor.instances", None)
    size = f"{settings.get('spark.executor.memory', '1g')} of memory (spark.executor.memory)"
    size += f" and {cores} cores (spark.executor.cores)" if cores else ""
    return (
        f"{context.master} has given no executor: {wanted or 'one or more'} wanted, with {size}; "
        "see whether it runs, and has workers that are large enough and free"
    )


def _on_server(spark: Any) -> Iterator[Callable[[], None]]:
    """A server shows the progress of its tasks, and nothing about its executors."""
    watch = _startup_watch(spark)
    waits_for: list[str | None] = [None]

    def handle(stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        left = sum(stage.num_tasks - stage.num_completed_tasks for stage in stages)
        starved = left and not inflight_tasks and not done
        waits_for[0] = f"the server has run none of {left} tasks: it has no executor that is free" if starved else None

    spark.registerProgressHandler(handle)
    try:
        yield lambda: watch.look(waits_for[0])
    finally:
        spark.removeProgressHandler(handle)
