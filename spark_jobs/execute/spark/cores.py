"""The number of tasks that run at a time on one machine, counted as Java does, so that memory is divided correctly."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOCAL = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*\d+\s*)?\])?")


def is_local(master: str) -> bool:
    """True if tasks run in the driver's own process."""
    return _LOCAL.fullmatch(master) is not None


def at_a_time(master: str | None, threads: int | None) -> int:
    """The tasks that run at a time on one machine.

    Args:
        master: Spark's master, as far as it is known; one of `local[n]` says it all.
        threads: what the pipeline or its user asks for.
    """
    found = _LOCAL.fullmatch(master or "")
    if found is None:
        return threads or available()
    return available() if found[1] == "*" else max(int(found[1] or 1), 1)


def available() -> int:
    """The cores that this process may use: its affinity, and the quota of its control groups.

    A container with two cores on a machine of 64 has two.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min([allowed, *quotas()])


def quotas(system: Path = Path("/")) -> Iterator[int]:
    """The quota of control groups of either version, in cores, rounded up."""
    try:
        groups = (system / "proc/self/cgroup").read_text()
    except OSError:
        return  # no Linux
    mount = system / "sys/fs/cgroup"
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number == "0" and not controllers:
            yield from _of(mount, name, _unified)
        elif "cpu" in controllers.split(","):
            yield from _of(mount / "cpu", name, _quota)


def _of(mount: Path, name: str, quota: Callable[[Path], int | None]) -> Iterator[int]:
    """A group is bound by its parents' quotas too; in a container its own folder may be the mount."""
    path = PurePosixPath(name.lstrip("/"))
    for each in (path, *path.parents):
        cores = quota(mount / each)
        if cores is not None:
            yield cores


def _unified(folder: Path) -> int | None:
    """Version 2: `max 100000` or `200000 100000`."""
    words = _words(folder / "cpu.max")
    return _cores(*words) if len(words) == 2 else None


def _quota(folder: Path) -> int | None:
    """Read the quota of cgroups version 1, in which -1 means no quota."""
    quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
    return _cores(quota[0], period[0]) if quota and period else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _cores(quota: str, period: str) -> int | None:
    if not (quota.isdigit() and period.isdigit()) or int(quota) <= 0 or int(period) <= 0:
        return None
    return math.ceil(int(quota) / int(period))
