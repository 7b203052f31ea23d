"""The progress of a run: its phase, the share that is done, the speed, and the remaining time.

At a terminal it is one line, which is written over and gone in the end. Elsewhere it is a line of the log every so
often, for runs that take long.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO

from spark_jobs.diagnostics.printable import printable
from spark_jobs.execute import logs
from spark_jobs.execute.tasks import meter, task_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.execute.run.stopwatch import Stopwatch
    from spark_jobs.execute.tasks.spec import JobSpec

#: A terminal's line is written again after so many seconds, and first when a run takes longer than it.
_PAUSE_S = 0.4
#: The log gets its first line after so many seconds, and further ones in this distance.
_FIRST_LINE_S, _LINE_EVERY_S = 15.0, 30.0
#: The rate is shown after so many seconds of work.
_LEAST_S = 1.0
#: The beginning of a terminal's line.
_NAME = "[clinker] "
#: The names of phases; jobs name themselves.
_WORDS = {
    "": "starting",
    "inputs": "looking at the input files",
    "fetch": "fetching pages",
    "session": "starting Spark",
    "unpack": "unpacking compressed files",
    "count": "counting records",
    "names": "looking for the names of columns",
    "publish": "publishing",
    "letters": "writing dead letters",
}
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class _Job:
    """A job on its way: what there is to do, and where its tasks say how much is done."""

    folder: str
    reads: str
    bytes: int
    loads: int
    #: The names of each later stage's nodes, and its number of tasks.
    stages: tuple[tuple[str, int], ...]


class Progress:
    """The progress that a run shows while it goes on.

    Args:
        clock: knows the phase.
        now: seconds of a clock that only goes on.
    """

    def __init__(self, clock: Stopwatch, now: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._now = now
        self._began = now()
        self._job: _Job | None = None
        #: When the first bytes of the job were read: Spark may have needed some time before.
        self._first: tuple[float, int] | None = None

    @contextmanager
    def job(self, wanted: JobSpec) -> Iterator[JobSpec]:
        """Within, the tasks of a job report how far they are, if they get the yielded value."""
        folder = ""
        if wanted.run.scratch.is_local:  # counters that change all the time are nothing for a store
            folder = wanted.run.scratch.file(f"progress-{uuid.uuid4().hex}")
            try:
                os.mkdir(folder)
            except OSError as error:  # a full disk, which the run meets itself
                logs.LOG.debug("progress is not shown: %s", error)
                folder = ""
        self._first = None
        self._job = _job(folder, wanted)
        try:
            yield replace(wanted, progress=folder)
        finally:
            self._job = None
            if folder:
                shutil.rmtree(folder, ignore_errors=True)

    def text(self, room: int = sys.maxsize) -> str:
        """The line that describes the run's current work: the fullest one that fits.

        Args:
            room: how many characters it may have; the end of a line is cut only where the shortest one does not fit.
        """
        job, elapsed = self._job, self._now() - self._began
        forms = self._of_phase() if job is None else self._of_job(job)
        lines = [f"{form} [{_seconds(elapsed)}]" for form in forms]
        return next((line for line in lines if len(line) <= room), lines[-1][:room])

    def _of_phase(self) -> list[str]:
        """Describe the current phase of the run outside of jobs, in ever shorter forms."""
        words, detail = _WORDS.get(self._clock.current, "finishing"), self._clock.detail
        return [words] if detail is None else [printable(detail()), words]

    def _of_job(self, job: _Job) -> list[str]:
        """Describe the progress of a job, in ever shorter forms."""
        done = meter.read(job.folder) if job.folder else meter.Reading(0, (0,) * (1 + meter.MOST_STAGES))
        if done.tasks[0] >= job.loads:
            for (name, tasks), finished in zip(job.stages, done.tasks[1:], strict=False):
                if finished < tasks:
                    return _counted(name, f"{finished} of {tasks} partitions", _percent(finished, tasks))
            return ["finishing"]
        percent = _percent(done.tasks[0], job.loads)
        if not job.bytes:
            return _counted(job.reads, f"{done.tasks[0]} of {job.loads} tasks", percent)
        percent = _percent(done.bytes, job.bytes)
        whole, *shorter = _counted(job.reads, _sizes(min(done.bytes, job.bytes), job.bytes), percent)
        rate, left = self._pace(job, done.bytes)
        if not rate:
            return [whole, *shorter]
        return [f"{whole}, {rate}, {left}", f"{whole}, {left}", f"{job.reads}: {percent}, {left}", *shorter]

    def _pace(self, job: _Job, done: int) -> tuple[str, str]:
        """The speed of the run, and the time that the rest takes at this speed; empty before they are known."""
        if self._first is None and done:
            self._first = self._now(), done
        began, before = self._first or (self._now(), 0)
        seconds = self._now() - began
        if seconds < _LEAST_S or done <= before:
            return "", ""
        rate = (done - before) / seconds
        return f"{_size(rate)}/s", f"{_seconds(max(job.bytes - done, 0) / rate)} left"


def _job(folder: str, wanted: JobSpec) -> _Job:
    sizes = [
        place.split.end - place.split.start
        for load in wanted.loads
        if isinstance(load, task_inputs.Splits)
        for place in load.splits
    ]
    job = wanted.job
    names = dict.fromkeys(op.step.name for op in job.ops.values() if op.id in job.sources or op.reads)
    reads = f"{'counting' if wanted.measures_only else 'reading'} {_named(list(names))}"
    stages = []
    for stage in range(1, min(job.stages, meter.MOST_STAGES + 1)):
        consumers = {exchange.consumer for exchange in job.at(stage)}
        steps = {op.step.name: op.step.kind for op in job.ops.values() if op.id in consumers}
        stages.append((_named([f"{kind} {name}" for name, kind in steps.items()]), job.slots(stage)))
    return _Job(folder, reads, sum(sizes), len(wanted.loads), tuple(stages))


def _counted(name: str, count: str, percent: str) -> list[str]:
    """Format a progress, in ever shorter forms."""
    return [f"{name}: {count} ({percent})", f"{name}: {percent}", percent]


def _named(names: list[str]) -> str:
    shown = [printable(name) for name in names[:3]]
    return ", ".join([*shown, f"{len(names) - 3} more"] if len(names) > 3 else shown)


def _percent(done: int, total: int) -> str:
    return f"{min(100 * done // max(total, 1), 100)}%"


def _size(count: float) -> str:
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} bytes"


def _sizes(done: int, total: int) -> str:
    return f"{_size(done)} of {_size(total)}"


def _seconds(count: float) -> str:
    whole = int(count)
    if whole < 60:
        return f"{whole} s"
    minutes, seconds = divmod(whole, 60)
    return f"{minutes} min {seconds:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


@contextmanager
def show_progress(clock: Stopwatch, *, wanted: bool, stream: TextIO | None = None) -> Iterator[Progress]:
    """Within, the progress of the run is shown on the terminal."""
    progress = Progress(clock)
    if not wanted:
        yield progress
        return
    stream = stream or sys.stderr
    over = threading.Event()
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    with _line(stream) if is_terminal else _lines() as shows:
        watcher = threading.Thread(target=_watch, args=(progress, shows, over), daemon=True, name="progress")
        watcher.start()
        try:
            yield progress
        finally:
            over.set()
            watcher.join(timeout=2 * _PAUSE_S)


@dataclass(frozen=True)
class _Shows:
    """Shows progress.

    Args:
        show: show a text.
        pause: gives the seconds until the next one.
        room: gives the most characters that a text may have.
    """

    show: Callable[[str], None]
    pause: Callable[[], float]
    room: Callable[[], int]


def _watch(progress: Progress, shows: _Shows, over: threading.Event) -> None:
    while not over.wait(shows.pause()):
        shows.show(progress.text(shows.room()))


@contextmanager
def _lines() -> Iterator[_Shows]:
    """Progress as lines of the log."""
    pauses = iter([_FIRST_LINE_S])
    yield _Shows(lambda text: logs.LOG.info("%s", text), lambda: next(pauses, _LINE_EVERY_S), lambda: sys.maxsize)


@contextmanager
def _line(stream: TextIO) -> Iterator[_Shows]:
    """Progress as one line of a terminal; it makes room for lines of the log, and is gone in the end."""
    line = _Line(stream)
    handlers = list(logging.getLogger("clinker").handlers)
    for handler in handlers:
        handler.addFilter(line.make_room)
    try:
        yield _Shows(line.show, lambda: _PAUSE_S, line.room)
    finally:
        line.close()
        for handler in handlers:
            handler.removeFilter(line.make_room)


class _Line:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0
        self._lock = threading.Lock()
        self._is_open = True

    def room(self) -> int:
        """The characters of a line that fit beside the name of the program; at least one."""
        return max(shutil.get_terminal_size().columns - 1 - len(_NAME), 1)

    def show(self, text: str) -> None:
        """Replace the line."""
        columns = shutil.get_terminal_size().columns
        text = f"{_NAME}{text}"[: max(columns - 1, 1)]
        with self._lock:
            if self._is_open:
                self._stream.write("\r" + text.ljust(min(self._width, columns - 1)))
                self._stream.flush()
                self._width = len(text)

    def make_room(self, record: logging.LogRecord) -> bool:
        """Take the line away before something else is written; it comes again."""
        with self._lock:
            self._clear()
        return True

    def close(self) -> None:
        """Take the line away for good."""
        with self._lock:
            self._is_open = False
            self._clear()

    def _clear(self) -> None:
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0
