"""Memory and descriptors for the processes of a run on the driver's machine: its own, Spark's JVM, Python workers."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

_KIB = 1024
_PROC = Path("/proc")


def peak_rss() -> int:
    """The most memory that each of them has had, in sum; pages that they share count for each.

    Those that have ended are not counted, nor are executors on other machines. Where the system does not tell of
    processes, it is the driver's alone.
    """
    return own_peak_rss() + sum(map(_peak_of, _descendants(os.getpid())))


def own_peak_rss() -> int:
    """The most memory that this process has had, in bytes. Unlike `peak_rss` it asks nothing of other processes."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return own if sys.platform == "darwin" else own * _KIB


def forget_peaks() -> None:
    """Let the peaks of these processes begin anew, for one that does several runs; where the system can do that."""
    for process in [os.getpid(), *_descendants(os.getpid())]:
        with contextlib.suppress(OSError):
            (_PROC / str(process) / "clear_refs").write_text("5")


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in _PROC.glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):  # it has ended meanwhile
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    found = list(children.get(root, ()))
    for each in found:
        found += children.get(each, ())
    return found


def _peak_of(process: int) -> int:
    try:
        lines = (_PROC / str(process) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * _KIB for line in lines if line.startswith("VmHWM:")), 0)
