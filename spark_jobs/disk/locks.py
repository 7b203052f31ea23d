"""Locks on files that other processes may remove: the kernel frees them however their holder ends.

A lock is an advisory `flock` of the whole file. Whoever removes a lock file holds it exclusively; whoever gets a lock
looks whether its file still has the name, and tries again when it has not.
"""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import ownership

if TYPE_CHECKING:
    from pathlib import Path

_REMEDY = "use a file system with file locks (NFS: start its lock service, or mount it with local_lock=flock)"


class NoLocksError(OSError):
    """A file system has no locks; the message says what to do."""


def hold(descriptor: int, how: int, path: str | Path) -> None:
    """Lock an open file.

    Raises:
        BlockingIOError: another has the lock, and `how` does not wait.
        NoLocksError: the file system has none.
    """
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        raise
    except OSError as error:
        text = f"cannot be locked ({error.strerror or error}): {_REMEDY}"
        raise NoLocksError(error.errno or errno.ENOLCK, text, str(path)) from error


@dataclass
class FileLock:
    """A lock that is held until it is closed."""

    path: Path
    _descriptor: int

    @classmethod
    def shared(cls, path: Path) -> FileLock:
        """The lock together with other readers; waits for a holder that has it alone.

        Raises:
            OSError: the lock file cannot be made or opened.
        """
        lock = _locked(path, fcntl.LOCK_SH)
        assert lock is not None
        return lock

    @classmethod
    def exclusive(cls, path: Path) -> FileLock | None:
        """The lock alone, without waiting; None while others hold it.

        Raises:
            OSError: the lock file cannot be made or opened.
        """
        return _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def weaken(self) -> bool:
        """Share a lock that was held alone. False: others removed its file in between, and the lock means nothing.

        The kernel frees the lock for a moment: what it guards may have changed.
        """
        hold(self._descriptor, fcntl.LOCK_SH, self.path)
        return has_name(self._descriptor, self.path)

    def strengthen(self) -> bool:
        """Hold a shared lock alone, without waiting. False: others hold it too, or hold it alone by now."""
        try:
            hold(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, self.path)
        except BlockingIOError:
            return False
        return has_name(self._descriptor, self.path)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def _locked(path: Path, how: int) -> FileLock | None:
    while True:
        descriptor = ownership.open_file(path, flags=os.O_RDWR | os.O_CREAT)
        try:
            hold(descriptor, how, path)
            if has_name(descriptor, path):
                return FileLock(path, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def has_name(descriptor: int, path: str | Path, folder: int | None = None) -> bool:
    """True if an open file is still the one with this name; a relative one is that in an open folder."""
    try:
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
        return os.path.samestat(found, os.fstat(descriptor))
    except FileNotFoundError:
        return False
