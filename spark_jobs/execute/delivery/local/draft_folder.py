"""A run's draft folder: `.clinker-<execution id>` next to files that it will publish, locked while the run lives.

Only its user can access it (0700), because after a crash its journal decides which files are renamed. So an existing
folder counts only if no other user can have created it (`spark_jobs/ownership.py`). It is inspected through a
descriptor, so that it cannot be replaced meanwhile. Other folders with this prefix have no lock with this mark, and are
left alone.
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
#: The content of each lock. Older runs have written the same.
MARK = b"the staging folder of a clinker run\n"
#: The journal lists the renames of a run. It is removed before the folder, so that remains are never half of a run.
JOURNAL = "journal.json"
_REMOVALS = 30
_REMOVAL_PAUSE_S = 0.1
_PAUSE_S = 0.05


@dataclass
class DraftFolder:
    """A draft folder that this process has locked: its path at that time, and the descriptor of its lock."""

    path: Path
    lock: int

    @classmethod
    def make(cls, parent: Path, run: str) -> DraftFolder:
        """Make and lock a run's folder. Waits while another process has locked it.

        Raises:
            FileExistsError: the name is taken by something that is no draft folder of this user.
            OSError: it cannot be made or locked.
        """
        path = parent / f"{PREFIX}{run}"
        while True:  # before it is locked, another run may mistake the folder for that of a dead run
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
        """Lock the folder of a dead run; None if its run lives, or if it is gone or no draft folder.

        Args:
            path: the folder.
            timeout_s: how long to wait for another process that has locked it; None if its run may live.

        Raises:
            NotOwnError: it is marked as a run's folder, but others may have made it.
            OSError: it cannot be inspected, or another process keeps the lock for longer than that.
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
                os.rmdir(path)  # its run died while it made or removed it; a run that is making it makes it again
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
        """A descriptor of the folder at its current path; None if it is gone."""
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
        """The current path of the folder, whose parents may have been renamed. None if the system cannot tell."""
        try:
            return Path(os.readlink(f"/proc/self/fd/{self.lock}")).parent
        except OSError:
            return None

    def remove(self) -> None:
        """Remove the folder, although stopped tasks may still write into it, and release its lock.

        The journal is removed first: otherwise half of the files could be published. The lock is removed last: if this
        process dies meanwhile, the next run can lock the folder. Tasks make files but no folders, so a removed folder
        does not come back.

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
        """Release the lock. The folder stays."""
        os.close(self.lock)


def remove(path: Path) -> None:
    """Remove a folder into which tasks may still write, as far as the system allows."""
    folder = ownership.open_folder(path)
    try:
        _remove(path, folder)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(folder)


def _remove(path: Path, folder: int) -> None:
    """Remove a folder. Raises `OSError` if something remains."""
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
    except (IsADirectoryError, PermissionError):  # the errors by which systems refuse a folder
        shutil.rmtree(name, dir_fd=folder)


def _made(path: Path) -> bool:
    try:
        durable.make_folder(path, 0o700)
    except FileExistsError:
        return False
    return True


def _locked_new(path: Path, *, is_new: bool) -> int | None:
    """The lock of a folder that was just made, or that has the run's name; None if it has been removed meanwhile."""
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
    except FileNotFoundError:  # another process has removed the folder
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
    return True  # on a file system without owners and modes, a new folder cannot be checked better


def _may_be_taken(folder: int) -> bool:
    """True if an existing folder belongs to this user and is either empty or a run's."""
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
    """Lock a file, without waiting or with a timeout."""
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
    """True if a run made the folder. If a run died right after making its lock, the folder has nothing else in it."""
    mark = os.pread(lock, len(MARK) + 1, 0)
    if make and not mark:
        os.write(lock, MARK)
        return True
    return mark == MARK or (not mark and os.listdir(folder) == [LOCK])
