"""A whole process, measured: wall time, and the processor time and peak memory of its tree."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SAMPLE_S = 0.2


@dataclass(frozen=True)
class Measurement:
    """Wall time, processor time and memory of a process and its descendants.

    Memory is the most at a time, shared pages counted once. Of a process that nobody waited for, the last fifth of a
    second is not in the processor time.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int


class Failed(Exception):
    """A measured process failed or took too long; the text is the end of its output."""


def run(command: Sequence[str], environment: Mapping[str, str], folder: Path, *, limit_s: float) -> Measurement:
    """Run a command in a folder.

    Args:
        command: the program and its arguments.
        environment: added to this process's environment.
        folder: the working directory.
        limit_s: after this many seconds the process and its descendants are killed.

    Raises:
        Failed: the command's exit status is neither 0 nor 2 (finished, with dead letters), or its time was up.
    """
    started, before = time.perf_counter(), waited_cpu_seconds()
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **environment}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    sampler = _Sampler(process.pid)
    sampler.start()
    try:
        told, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"{' '.join(command)} took more than {limit_s:.0f} s") from expired
    finally:
        seconds = time.perf_counter() - started
        kill_session(process)
        sampler.stop()
    if process.returncode not in (0, 2):
        raise Failed(f"{' '.join(command)} ended with {process.returncode}:\n{told[-3000:]}")
    return Measurement(seconds, max(sampler.cpu_seconds, waited_cpu_seconds() - before), sampler.peak_bytes)


def tree_cpu_seconds(pid: int) -> float:
    """The processor time of a process and its descendants until now, including children that have ended."""
    root = psutil.Process(pid)
    total = 0.0
    for member in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # its parent has its time
            total += sum(member.cpu_times()[:4])
    return total


def waited_cpu_seconds() -> float:
    """The processor time of this process's children that it has waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def kill_session(process: subprocess.Popen[str]) -> None:
    """Nothing of a measured program works on while the next is measured."""
    with contextlib.suppress(ProcessLookupError):  # the usual case: everything has ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Sampler(threading.Thread):
    """Looks at a process tree from time to time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._cpu_seconds: dict[psutil.Process, float] = {}
        self._root = psutil.Process(pid)
        self._ended = threading.Event()

    @property
    def cpu_seconds(self) -> float:
        """The processor time of all processes that were seen."""
        return sum(self._cpu_seconds.values())

    def run(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, sum(self._look(member) for member in self._family()))

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _family(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return []

    def _look(self, member: psutil.Process) -> int:
        """A process's memory: its proportional share where the platform tells it, else its resident size.

        Its processor time is noted.
        """
        try:
            times = member.cpu_times()
            memory = member.memory_full_info()
        except psutil.Error:
            return 0  # ended meanwhile
        self._cpu_seconds[member] = times.user + times.system
        return int(getattr(memory, "pss", 0) or memory.rss)
