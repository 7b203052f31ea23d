"""Removes the remains of dead runs from a staging folder, before a run stages anything.

Remains are unfinished copies, copies without manifest, manifests without copy, and locks of sources without copy. A
whole copy stays, because it may be used again. Nothing is removed while a process holds the source's lock, and nothing
that is only moments old, because its run may be about to take the lock.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from spark_jobs.disk.locks import FileLock
from spark_jobs.scan.staging.staged_copy import LOCK, PARTIAL, StagedCopy

#: Younger files are left alone; in seconds.
GRACE_S = 5.0

_NAME = re.compile(r"(?P<id>[0-9a-f]{64})(\.[0-9a-f]{32}\.partial|\.manifest\.json(\.partial)?|\.staged|\.lock)")


def purge(folder: str) -> list[str]:
    """Remove the leftovers in a staging folder; gives what could not be removed. Files of others are never touched."""
    try:
        found = sorted({match["id"] for name in os.listdir(folder) if (match := _NAME.fullmatch(name))})
    except OSError as error:
        return [f"{folder} is not purged: {error.strerror or error}"]
    problems = []
    for source in found:
        copy = StagedCopy(Path(folder), source)
        try:
            _purge_source(copy)
        except OSError as error:
            problems.append(f"{copy.data}: leftovers of a dead run are not removed: {error.strerror or error}")
    return problems


def _purge_source(copy: StagedCopy) -> None:
    # A whole copy is not even locked: a run that is ending may want its lock at this very moment.
    if not _partials(copy) and (copy.committed() or (_only_lock(copy) and not _is_old(copy.lock))):
        return
    had_lock = copy.lock.exists()
    lock = FileLock.exclusive(copy.lock)
    if lock is None:
        return
    try:
        for partial in _partials(copy):
            if _is_old(partial):
                partial.unlink(missing_ok=True)
        if copy.committed() is None:
            copy.discard()
        if _only_lock(copy) and (_is_old(copy.lock) or not had_lock):
            copy.lock.unlink(missing_ok=True)
    finally:
        lock.close()


def _partials(copy: StagedCopy) -> list[Path]:
    return [path for path in copy.folder.glob(f"{copy.id}.*{PARTIAL}") if _NAME.fullmatch(path.name)]


def _only_lock(copy: StagedCopy) -> bool:
    """True if nothing of a source is left but its lock."""
    return all(path.name == f"{copy.id}{LOCK}" for path in copy.folder.glob(f"{copy.id}.*"))


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > GRACE_S
    except FileNotFoundError:
        return False
