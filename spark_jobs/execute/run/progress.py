"""Progress of long work, for people at a terminal: one line that is written over, gone when the work is done."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spark_jobs.execute.spark import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

#: Work that ends sooner is not worth a line.
_PATIENCE_S = 1.5
_PAUSE_S = 0.5


@contextmanager
def shown(spark: SparkSession, *, wanted: bool) -> Iterator[None]:
    """Within, standard error shows how many of the running tasks are done, if it is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    line = _Line()
    stop = threading.Event()
    if connect.is_session(spark):
        handler = _handler(line)
        spark.registerProgressHandler(handler)
        try:
            yield
        finally:
            spark.removeProgressHandler(handler)
            line.clear()
        return
    watcher = threading.Thread(target=_watch, args=(spark, line, stop), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join(timeout=2 * _PAUSE_S)
        line.clear()


def _handler(line: _Line) -> Any:
    """What Spark Connect calls as its work goes on."""

    def handle(stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        total = sum(stage.num_tasks for stage in stages)
        line.show(sum(stage.num_completed_tasks for stage in stages), total)

    return handle


def _watch(spark: SparkSession, line: _Line, stop: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not stop.wait(_PAUSE_S):
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        if known:
            line.show(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))


class _Line:
    def __init__(self) -> None:
        self._began = time.monotonic()
        self._width = 0

    def show(self, done: int, total: int) -> None:
        """Write the line over."""
        seconds = time.monotonic() - self._began
        if seconds < _PATIENCE_S or not total:
            return
        text = f"[clinker] {done}/{total} tasks ({100 * done // total}%) [{seconds:.0f}s]"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0
