"""Progress of the tasks of a job: each process with tasks keeps a few counters in a file of the run's folder.

The driver adds the files up while it waits. Spark tells only how many tasks are done, and a task may take minutes. The
counters are for people: a task that is tried again counts twice, and nothing depends on them.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.execute import logs
from spark_jobs.scan import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Later stages that are counted separately. Stages of a job beyond them count with the last.
MOST_STAGES = 8
#: Bytes that were read, finished tasks of the first stage, and finished tasks of each later stage.
_COUNTERS = struct.Struct(f"<{2 + MOST_STAGES}Q")


@dataclass(frozen=True)
class Reading:
    """The progress of a job's tasks so far: bytes of inputs, and tasks by stage."""

    bytes: int
    tasks: tuple[int, ...]


class Meter:
    """The progress counters of this process for one job; without a folder they are not shared."""

    def __init__(self, folder: str) -> None:
        self._file: int | None = None
        self._counts = [0] * (2 + MOST_STAGES)
        if folder:
            name = f"{socket.gethostname()}-{os.getpid()}"
            try:
                self._file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:  # a run that is over has removed the folder
                logs.LOG.debug("progress is not told: %s", error)

    def add(self, read: int = 0, stage: int | None = None) -> None:
        """Count bytes that were read, and a task of a stage that is done."""
        if self._file is None or (not read and stage is None):
            return
        self._counts[0] += read
        if stage is not None:
            self._counts[1 + min(stage, MOST_STAGES)] += 1
        try:
            os.pwrite(self._file, _COUNTERS.pack(*self._counts), 0)
        except OSError as error:  # a full disk, which the task meets itself
            logs.LOG.debug("progress is not told: %s", error)
            self.close()

    def close(self) -> None:
        """Stop sharing the counters."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Pace:
    """Reports the bytes that a task has read: never more than its splits have, and all of them at the end."""

    def __init__(self, meter: Meter, total: int) -> None:
        self._meter = meter
        self._left = total
        self._before = changes.bytes_read()

    def advance(self) -> None:
        """Report the bytes read since the last call."""
        now = changes.bytes_read()
        more = min(now - self._before, self._left)
        self._before = now
        self._left -= more
        self._meter.add(more)

    def finish(self) -> None:
        """Report the rest: a reader may skip bytes that nothing needs."""
        self._meter.add(self._left)
        self._left = 0


class _Held(threading.local):
    """The meter of a thread: runs in several threads of a process have nothing to do with one another."""

    key = ""
    meter: Meter | None = None


_HELD = _Held()


def of(folder: str) -> Meter:
    """The meter of this process for the job with a folder; the one of the job before is closed."""
    key = f"{os.getpid()} {folder}"  # a forked process counts in a file of its own
    if _HELD.meter is None or _HELD.key != key:
        if _HELD.meter is not None:
            _HELD.meter.close()
        _HELD.key, _HELD.meter = key, Meter(folder)
    return _HELD.meter


def read(folder: str) -> Reading:
    """The counts of all processes so far."""
    found = [_COUNTERS.unpack(data) for data in _files(folder) if len(data) == _COUNTERS.size]
    sums: Sequence[int] = [sum(column) for column in zip(*found, strict=True)] or [0] * (2 + MOST_STAGES)
    return Reading(sums[0], tuple(sums[1:]))


def _files(folder: str) -> list[bytes]:
    found = []
    try:
        for entry in os.scandir(folder):
            with open(entry.path, "rb") as file:
                found.append(file.read(_COUNTERS.size))
    except FileNotFoundError:  # the job is over
        return []
    return found
