"""A run's draft folder: `.clinker-<execution id>` beside files that it will publish, locked while the run lives.

Only its user can access it (0700), because after a crash its journal decides what is renamed. So a folder that is found
counts only if no other user can have created it (`spark_jobs/ownership.py`). It is inspected through a descriptor, so
that it cannot be replaced meanwhile. Other folders with our prefix have no lock with our mark, and are left alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from spark_jobs import ownership
from spark_jobs.disk import durable, locks

PREFIX = durable.OWN_PREFIX
LOCK = "lock"
#: In each lock; older runs have written the same.
MARK = b"the staging folder of a clinker run\n"
#: The journal lists the renames of a run. It is removed before the folder, so the remains are never half of a run.
JOURNAL = "journal.json"
_REMOVALS = 30
_REMOVAL_PAUSE_S = 0.1
_PAUSE_S = 0.05


@dataclass
class DraftFolder:
    """A draft folder that this process holds: its path when it was taken, and the descriptor of its lock."""

    path: Path
    lock: int

    @classmethod
    def make(cls, parent: Path, run: str) -> DraftFolder:
        """Make and lock a run's folder; waits while another process has it.

        Raises:
            FileExistsError: the name is taken by something that is no draft folder of this user.
            OSError: it cannot be made or locked.
        """
        path = parent / f"{PREFIX}{run}"
        while True:  # another run may take the folder for a dead one's before it is locked
            is_new = _made(path)
            try:
                lock = _locked_new(path, is_new=is_new)
            except BaseException:
                if is_new:
                    shutil.rmtree(path, ignore_errors=True)
                raise
            if lock is not None:
                return cls(path, lock)

    @classmethod
    def of_dead(cls, path: Path, *, timeout_s: float | None = None) -> DraftFolder | None:
        """Take the folder of a run that died; None when its run lives, or when it is gone or no draft folder.

        Args:
            path: the folder.
            timeout_s: how long to wait for another process that has it; None when its run may live.

        Raises:
            NotOwnError: it is marked as a run's folder, and others may have made it.
            OSError: it cannot be looked at, or another process has it for longer than that.
        """
        try:
            folder = ownership.open_folder(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise
        try:
            return cls._of_dead(path, folder, timeout_s)
        finally:
            os.close(folder)

    @classmethod
    def _of_dead(cls, path: Path, folder: int, timeout_s: float | None) -> DraftFolder | None:
        try:
            lock = ownership.open_file(LOCK, folder, os.O_RDWR)
        except FileNotFoundError:
            if not os.listdir(folder) and ownership.is_own(os.fstat(folder)):
                os.rmdir(path)  # its run died making or removing it; a run that is making it makes it again
            return None
        except ownership.NotOwnError:  # no run has made it
            return None
        try:
            if _held(lock, path, timeout_s) and locks.has_name(lock, LOCK, folder) and _has_mark(lock, folder):
                ownership.check(folder, path)
                ownership.check(lock, path / LOCK)
                return cls(path, lock)
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        return None

    def open(self) -> int | None:
        """A descriptor of the folder, where it is now; None when it is nowhere."""
        for path in (self.path, self._moved()):
            if path is None:
                continue
            try:
                folder = ownership.open_folder(path)
            except OSError:
                continue
            if locks.has_name(self.lock, LOCK, folder):
                self.path = path
                return folder
            os.close(folder)
        return None

    def _moved(self) -> Path | None:
        """The current path of the folder: a folder above may have been renamed. None if the system cannot tell."""
        try:
            return Path(os.readlink(f"/proc/self/fd/{self.lock}")).parent
        except OSError:
            return None

    def remove(self) -> None:
        """Remove the folder, which tasks that are being stopped may still write into, and let go of its lock.

        The journal goes first: half of the files could be published otherwise. The lock goes last: a process that
        dies in here leaves a folder that the next run can take. Tasks make files but no folders: once the folder is
        gone it stays away.

        Raises:
            OSError: something in it cannot be removed.
        """
        folder = self.open()
        try:
            if folder is not None:
                _remove(self.path, folder)
        finally:
            if folder is not None:
                os.close(folder)
            self.close()
        if folder is not None and self.path.exists():
            os.rmdir(self.path)  # on NFS the open lock had kept a name in it

    def close(self) -> None:
        """Let go of the lock; the folder stays."""
        os.close(self.lock)


def remove(path: Path) -> None:
    """Remove a folder that tasks may still write into, as far as the system allows."""
    folder = ownership.open_folder(path)
    try:
        _remove(path, folder)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(folder)


def _remove(path: Path, folder: int) -> None:
    """Raises OSError when something stays."""
    for attempt in range(_REMOVALS):
        names = sorted(os.listdir(folder), key=lambda name: (name == LOCK, name != JOURNAL, name))
        try:
            for name in names:
                _remove_entry(name, folder)
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _REMOVALS - 1:
                if all(name.startswith(".nfs") for name in os.listdir(folder)):
                    return  # names of files that are still open; they go when those are closed
                raise
        time.sleep(_REMOVAL_PAUSE_S)


def _remove_entry(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):  # how systems refuse a folder
        shutil.rmtree(name, dir_fd=folder)


def _made(path: Path) -> bool:
    try:
        durable.make_folder(path, 0o700)
    except FileExistsError:
        return False
    return True


def _locked_new(path: Path, *, is_new: bool) -> int | None:
    """The lock of a folder that was just made, or found under the run's name; None when it went meanwhile."""
    try:
        folder = ownership.open_folder(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _foreign(path) from error
    try:
        if not is_new and not _may_be_taken(folder):
            raise _foreign(path)
        lock = ownership.open_file(LOCK, folder, os.O_RDWR | os.O_CREAT)
        try:
            if _is_locked_new(path, lock, folder, is_new=is_new):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        return None
    except FileNotFoundError:  # the folder was removed under this process's hands
        return None
    finally:
        os.close(folder)


def _is_locked_new(path: Path, lock: int, folder: int, *, is_new: bool) -> bool:
    locks.hold(lock, fcntl.LOCK_EX, path / LOCK)
    with durable.about(path / LOCK):
        if not locks.has_name(lock, LOCK, folder) or not _has_mark(lock, folder, make=True):
            return False
    keeps_owners = ownership.is_own(os.fstat(lock))
    if (keeps_owners or not is_new) and not ownership.is_own(os.fstat(folder)):
        raise _foreign(path)
    return True  # where a file system keeps neither owners nor modes, a new folder is as good as it gets


def _may_be_taken(folder: int) -> bool:
    """Whether a folder that was there is this user's and either empty or a run's."""
    try:
        if not os.listdir(folder):
            return ownership.is_own(os.fstat(folder))
        return ownership.read(LOCK, folder, len(MARK)) in (b"", MARK)
    except OSError:
        return False


def _foreign(path: Path) -> OSError:
    """The error for a run whose id is in the name of another user's folder."""
    text = "is not the draft folder of a run of this user; choose another execution id"
    return FileExistsError(errno.EEXIST, text, str(path))


def _held(lock: int, path: Path, timeout_s: float | None) -> bool:
    """Lock a file without waiting, or for no longer than that."""
    deadline = time.monotonic() + (timeout_s or 0.0)
    while True:
        try:
            locks.hold(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, path / LOCK)
        except BlockingIOError as error:
            if timeout_s is None:
                return False
            if time.monotonic() >= deadline:
                raise OSError(errno.EBUSY, "another process has it; run again later", str(path)) from error
            time.sleep(_PAUSE_S)
        else:
            return True


def _has_mark(lock: int, folder: int, *, make: bool = False) -> bool:
    """Whether a run made the folder; a run that died with its lock just made has nothing else in it."""
    mark = os.pread(lock, len(MARK) + 1, 0)
    if make and not mark:
        os.write(lock, MARK)
        return True
    return mark == MARK or (not mark and os.listdir(folder) == [LOCK])
