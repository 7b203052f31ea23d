"""Ends a process with everything it started.

`spark-submit` in client mode is a shell that becomes a JVM, which starts a Python driver and, in local mode, Python
workers. Killing the JVM alone leaves the driver running, and writing. Once a parent is dead its children cannot be
found through it any more, so each run also carries a mark in its environment by which strays are found.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import psutil

from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The environment variable that every process of a run inherits; its value is the execution id.
MARK = contract.EXECUTION_ID_VARIABLE

_LOOK_EVERY_S = 0.02


def end(pid: int | None, mark: str, *, grace_s: float) -> list[int]:
    """Terminate `pid`, its descendants and all processes that carry the mark; kill processes that do not end in time.

    Never touches the calling process or its ancestors. Processes that end meanwhile are no error.

    Args:
        pid: the root of the tree, or None when it is not known.
        mark: the execution id.
        grace_s: seconds between the polite signal and the other one.

    Returns:
        The ids of the processes that were signalled.
    """
    found = _tree(pid) | marked(mark)
    _signal(found, psutil.Process.terminate)
    alive = _wait(found, grace_s)
    # A process can start another between the look and the signal, so there is a second look before the hard signal.
    rest = alive | marked(mark)
    for process in alive:
        rest |= _tree(process.pid)
    _signal(rest, psutil.Process.kill)
    _wait(rest, grace_s)
    return sorted(process.pid for process in found | rest)


def marked(mark: str) -> set[psutil.Process]:
    """The running processes whose environment carries the mark, without this process and its ancestors."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = set()
    for process in psutil.process_iter():
        try:
            if process.pid not in own and process.environ().get(MARK) == mark and _is_running(process):
                found.add(process)
        except (psutil.Error, OSError):
            continue  # another user's process, or one that has just ended: not ours to end
    return found


def _tree(pid: int | None) -> set[psutil.Process]:
    if pid is None:
        return set()
    try:
        root = psutil.Process(pid)
        return {root, *root.children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def _wait(processes: set[psutil.Process], timeout_s: float) -> set[psutil.Process]:
    """The processes that still run when the time is over, or as soon as none does."""
    # psutil's own waiting collects the exit status of a child, which `subprocess` then reads as 0.
    deadline = time.monotonic() + timeout_s
    while (alive := {process for process in processes if _is_running(process)}) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    return alive


def _is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(processes: Iterable[psutil.Process], send: object) -> None:
    for process in processes:
        try:
            send(process)  # type: ignore[operator]
        except psutil.NoSuchProcess:
            continue  # it ended by itself
