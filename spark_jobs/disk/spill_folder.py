"""The folder that a run spills into: its own, locked while the run lives, and removed with it.

An embedded Spark has such a folder as well, which lives as long as its process. What is killed leaves its folder.
The next run with the same root removes it, once the kernel says that nobody holds its lock. In the system's
temporary folder, which belongs to everybody, it has to be old as well.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import ownership
from spark_jobs.disk.locks import FileLock

if TYPE_CHECKING:
    from types import TracebackType

PREFIX = "clinker-spill-"
LOCK = ".lock"
#: A folder that is younger than this may be about to be locked, in seconds.
GRACE_S = 5.0
#: And one that is younger than this stays in the system's temporary folder.
OLD_S = 3600.0
#: How long those who still write into a folder are waited for when it is removed, and how often it is tried.
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
    def open(cls, root: str, *, is_configured: bool) -> SpillFolder:
        """Make and lock a folder; what dead runs of this user left there goes first.

        Args:
            root: where, an existing folder.
            is_configured: whether `storage.spill.dir` names the root.

        Raises:
            OSError: the root is missing or not writable.
        """
        problems = purge(root, GRACE_S if is_configured else OLD_S)
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        try:
            lock = FileLock.exclusive(path / LOCK)
            if lock is None:
                raise BlockingIOError(f"{path} is locked by another process")
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return cls(path, tuple(problems), lock)

    def close(self) -> None:
        """Remove the folder with all that is in it; what cannot be removed is left to the next run."""
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


def purge(root: str, least_age_s: float = GRACE_S) -> list[str]:
    """Remove this user's spill folders of dead runs from an age on; gives those that could not be removed."""
    try:
        with os.scandir(root) as entries:
            found = sorted(
                entry.path for entry in entries if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False)
            )
    except OSError as error:
        return [f"{root} is not purged: {error.strerror or error}"]
    problems = []
    for path in map(Path, found):
        try:
            _purge_folder(path, least_age_s)
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
