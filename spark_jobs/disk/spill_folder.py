"""The folder that a run spills into: its own, locked while the run lives, and removed with it.

An embedded Spark has such a folder as well, which lives as long as its process. What is killed leaves its folder.
The next run with the same root removes it, once the kernel says that nobody holds its lock. A folder gets its name once
it is locked, so that none with this name is without a lock while its run lives.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import ownership
from spark_jobs.disk import volumes
from spark_jobs.disk.locks import FileLock

if TYPE_CHECKING:
    from types import TracebackType

PREFIX = "clinker-spill-"
#: Folders that are not locked yet begin with this.
UNLOCKED = f"{PREFIX}new-"
LOCK = ".lock"
#: A process started by a killed one may still write into a folder that is younger than this, in seconds.
GRACE_S = 5.0
#: And a folder that is younger than this stays where locks say nothing of it: before it is locked, and on network file
#: systems, which may keep locks from other machines.
OLD_S = 3600.0
#: How long removing a folder waits for other writers, and the pause between attempts, in seconds.
_WRITERS_S, _PAUSE_S = 3.0, 0.05


@dataclass
class SpillFolder:
    """A spill folder, `<root>/clinker-spill-<random>`, for its owner alone (0700).

    Args:
        path: the folder.
        problems: folders of dead runs that could not be removed, to warn of.
    """

    path: Path
    problems: tuple[str, ...]
    _lock: FileLock

    @classmethod
    def open(cls, root: str) -> SpillFolder:
        """Make and lock a folder; what dead runs of this user left there goes first.

        Args:
            root: where, an existing folder.

        Raises:
            OSError: the root is missing or not writable.
        """
        problems = purge(root)
        made = Path(tempfile.mkdtemp(prefix=UNLOCKED, dir=root))
        path = made.with_name(PREFIX + made.name.removeprefix(UNLOCKED))
        try:
            lock = FileLock.exclusive(made / LOCK)
            if lock is None:
                raise BlockingIOError(f"{made} is locked by another process")
            made.rename(path)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        return cls(path, tuple(problems), replace(lock, path=path / LOCK))

    def close(self) -> None:
        """Remove the folder with its content; anything that cannot be removed is left to the next run."""
        # Removed under its lock: no other run takes it for a dead one's. Tasks that are being stopped may still write.
        deadline = time.monotonic() + _WRITERS_S
        shutil.rmtree(self.path, ignore_errors=True)
        while self.path.exists() and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> SpillFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def purge(root: str) -> list[str]:
    """Remove this user's spill folders of dead runs; gives those that could not be removed."""
    try:
        with os.scandir(root) as entries:
            found = sorted(
                entry.path for entry in entries if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False)
            )
    except OSError as error:
        return [f"{root} is not purged: {error.strerror or error}"]
    problems = []
    usual_s = OLD_S if volumes.kind(root) is volumes.Kind.NETWORK else GRACE_S
    for path in map(Path, found):
        try:
            _purge_folder(path, OLD_S if path.name.startswith(UNLOCKED) else usual_s)
        except FileNotFoundError:  # its own run has removed it
            continue
        except OSError as error:
            problems.append(f"{path} of a dead run is not removed: {error.strerror or error}")
    return problems


def _purge_folder(path: Path, least_age_s: float) -> None:
    found = path.lstat()
    if not ownership.is_own(found) or time.time() - found.st_mtime <= least_age_s:
        return  # another user's, or just made
    lock = FileLock.exclusive(path / LOCK)
    if lock is None:
        return
    try:
        shutil.rmtree(path)
    finally:
        lock.close()
