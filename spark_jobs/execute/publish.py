"""Publishing: everything is written aside, and becomes visible by renames when the run has succeeded.

Each run has a staging folder `.clinker-<execution id>` beside every file it will publish, so that the last step is a
rename within one file system. A staging folder is locked by its run. Before the first rename the list of renames is
written down as a *journal* in one of the folders, and each of them says in which; a run that dies among the renames is
completed by the next run that touches any of the folders, one that dies earlier leaves only folders without owner,
which the next run removes. So a reader sees the old files or the new ones.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from spark_jobs.execute import logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PREFIX = ".clinker-"
_LOCK = "lock"
#: What a lock file holds: a folder of somebody else's that has our prefix is left alone.
_MARK = b"the staging folder of a clinker run\n"
_JOURNAL = "journal.json"
#: In every folder of a run that publishes: the path of the folder with the journal.
_POINTER = "journal.at"
_REMOVALS = 30
_REMOVAL_PAUSE_S = 0.1


@dataclass(frozen=True)
class Rename:
    """A finished file and the name it gets; `source` None removes what is there (dead letters of an older run)."""

    source: str | None
    target: str


@dataclass
class Staging:
    """The staging folders of a run. `home` is the one for what stays inside the run."""

    run: str
    home: Path
    folders: list[Path] = field(default_factory=list)
    _known: dict[str, Path] = field(default_factory=dict)
    _locks: list[IO[bytes]] = field(default_factory=list)
    _made: list[Path] = field(default_factory=list)

    @classmethod
    def open(cls, run: str, home: Path) -> Staging:
        """Lock a staging folder under `home`, after clearing what dead runs left there.

        Raises:
            OSError: the folder cannot be made or written.
        """
        staging = cls(run, home)
        try:
            staging.home = staging.folder(home)
        except BaseException:
            staging.close(failed=True)
            raise
        return staging

    def folder(self, beside: Path) -> Path:
        """The run's staging folder in a folder; missing folders are made."""
        real = os.path.realpath(beside)  # one folder has one lock, however it is spelled
        if real in self._known:
            return self._known[real]
        path = beside / f"{PREFIX}{self.run}"
        self._made += [parent for parent in (beside, *beside.parents) if not parent.exists()]
        beside.mkdir(parents=True, exist_ok=True)
        recover(beside)
        lock = None
        while lock is None:  # another run may take the folder for a dead one's before it is locked
            path.mkdir(parents=True, exist_ok=True)
            _refuse_foreign(path)
            lock = _locked(path, make=True)
        self._locks.append(lock)
        self.folders.append(path)
        self._known[real] = path
        return path

    def publish(self, renames: Sequence[Rename]) -> None:
        """Make all files visible, or none; a death in between is mended by `recover`. Not to be interrupted.

        Raises:
            OSError: a file cannot get its name; those that had theirs have given it back.
        """
        if not renames:
            return
        for rename in renames:
            if rename.source:
                _sync(Path(rename.source))
        # Beside the files, not in the run's home: a scheduler may remove a folder that it made for one attempt.
        staged = [Path(rename.source).parent for rename in renames if rename.source]
        place = staged[0] if staged else self.home
        for folder in self.folders:
            _write_down(folder / _POINTER, os.path.realpath(place))
        _write_down(place / _JOURNAL, json.dumps([_entry(rename) for rename in renames]))
        try:
            _rename_or_restore(renames)
        finally:
            (place / _JOURNAL).unlink()

    def close(self, *, failed: bool) -> None:
        """Remove the staging folders, and after a failure the empty folders that the run made."""
        for folder in self.folders:
            remove(folder)
        for lock in self._locks:
            lock.close()
        if failed:
            for folder in self._made:
                try:
                    folder.rmdir()
                except OSError:  # something else is in it by now, or it is gone
                    continue
        self.folders.clear()
        self._known.clear()
        self._locks.clear()


@contextmanager
def alone(folders: Iterable[Path]) -> Iterator[None]:
    """Within, no other run publishes into these folders: what is free, and what is in the way, stays so.

    Where the file system cannot lock a folder, two runs that publish into it at the same moment are not told apart.
    """
    with ExitStack() as held:
        for path in sorted({os.path.realpath(folder) for folder in folders}):  # all runs wait in the same order
            descriptor = os.open(path, os.O_RDONLY)
            held.callback(os.close, descriptor)
            _lock(descriptor, path)
        yield


def _lock(descriptor: int, path: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logs.LOG.info("waiting for another run that publishes into %s", path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        logs.LOG.debug("%s cannot be locked: %s", path, error)


def remove(folder: Path) -> None:
    """Remove a folder that tasks which are being stopped may still write into, as far as the system allows.

    The lock goes last: a process that dies in here leaves a folder that `recover` can take. Tasks make files but no
    folders: once the folder is gone it stays away.
    """
    for _ in range(_REMOVALS):
        for path in folder.glob("*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_REMOVAL_PAUSE_S)


def _locked(folder: Path, *, make: bool = False, wait: bool = True) -> IO[bytes] | None:
    """A staging folder's lock, held.

    None when there is none: the folder was removed meanwhile, or is no staging folder; without `wait` also when a
    living run has it.
    """
    try:
        lock = open(folder / _LOCK, "a+b" if make else "r+b")  # noqa: SIM115 - held until the caller closes it
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.path.samestat(os.fstat(lock.fileno()), os.stat(folder / _LOCK)) and _is_ours(folder, lock, make):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass  # held by another, or removed between making and locking it
    lock.close()
    return None


def _is_ours(folder: Path, lock: IO[bytes], make: bool) -> bool:
    """Whether a run made the folder; a run that died with its lock just made has nothing else in it."""
    lock.seek(0)
    mark = lock.read(len(_MARK))
    if make and not mark:
        lock.write(_MARK)
        lock.flush()
        return True
    return mark == _MARK or (not mark and os.listdir(folder) == [_LOCK])


def _refuse_foreign(folder: Path) -> None:
    """A run that is given the id in the name of somebody else's folder must not take it for its own."""
    try:
        is_foreign = folder.is_symlink() or (folder / _LOCK).read_bytes() not in (b"", _MARK)
    except FileNotFoundError:
        is_foreign = folder.is_dir() and bool(os.listdir(folder))
    if is_foreign:
        raise FileExistsError(errno.EEXIST, "is no staging folder of a run; choose another execution id", str(folder))


def recover(beside: Path) -> list[Path]:
    """Complete or remove what runs that died left in a folder; gives the staging folders that were cleared.

    A staging folder whose lock is held belongs to a living run and is left alone, and so is what is not ours, or not
    ours to write. An empty folder was left by a run that died making or removing it; should it be one that is being
    made, its run makes it again.

    Raises:
        OSError: a file of a run that died among its renames cannot get its name.
    """
    cleared = []
    for path in sorted(beside.glob(f"{PREFIX}*")):
        if path.is_symlink() or not path.is_dir():
            continue
        try:
            lock = _locked(path, wait=False)
            if lock is None:
                if not os.listdir(path):
                    path.rmdir()
                continue
            with lock:
                _complete(path)
                remove(path)
                cleared.append(path)
        except (PermissionError, FileNotFoundError) as error:
            logs.LOG.debug("%s is left as it is: %s", path, error)
    return cleared


def _complete(folder: Path) -> None:
    """Do what the run of a folder had still to rename, if it had got so far."""
    pointer = folder / _POINTER
    if not pointer.exists():
        return
    place = Path(pointer.read_text())
    with ExitStack() as held:
        if str(place) != os.path.realpath(folder):
            lock = _locked(place)
            if lock is None:  # the files have their names already
                return
            held.enter_context(lock)
        journal = place / _JOURNAL
        if not journal.exists():
            return
        entries = json.loads(journal.read_text())
        for source, target, identity in entries:
            try:
                _redo(source, target, identity)
            except OSError as error:
                raise _stuck(error, target, place) from error
        _sync_folders(Rename(source, target) for source, target, _ in entries)
        journal.unlink()
        logs.LOG.warning("%s: completed the files of a run that had died while it published them", folder.parent)


def _stuck(error: OSError, target: str, place: Path) -> OSError:
    text = (
        f"{error.strerror or error}; a run that died while it published this file has left it in {place}: "
        "make room for it, or remove that folder to give its files up"
    )
    return OSError(error.errno, text, target)


def _entry(rename: Rename) -> tuple[str | None, str, list[int] | None]:
    """A rename as the journal has it; what is to be removed is known by more than its name."""
    return rename.source, rename.target, None if rename.source else _identity(rename.target)


def _identity(path: str) -> list[int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return [found.st_dev, found.st_ino, found.st_mtime_ns]


def _redo(source: str | None, target: str, identity: list[int] | None) -> None:
    if source is None:
        if identity is not None and _identity(target) == identity:  # else it is a later run's
            os.unlink(target)
    elif os.path.exists(source):  # else an earlier attempt has done it
        os.replace(source, target)


def _write_down(path: Path, text: str) -> None:
    """A file that is there as a whole or not at all, also after a loss of power."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    _sync(path.parent)


def _rename_or_restore(renames: Sequence[Rename]) -> None:
    """Do all renames; when one fails, undo those that were done, so that the old files are back."""
    done: list[tuple[Rename, str | None]] = []
    try:
        for rename in sorted(renames, key=lambda each: each.source is None):  # what is only removed goes last
            done.append((rename, _kept(rename)))
            _rename(rename)
    except OSError:
        for rename, old in reversed(done):
            if rename.source and not os.path.exists(rename.source):
                os.replace(rename.target, rename.source)
            if old:
                os.replace(old, rename.target)
        raise
    _sync_folders(renames)


def _kept(rename: Rename) -> str | None:
    """A second name, in the staging folder, for the file that is about to be replaced; None when there is none."""
    if rename.source is None or not os.path.lexists(rename.target) or os.path.isdir(rename.target):
        return None
    kept = f"{rename.source}.old"
    try:
        os.link(rename.target, kept, follow_symlinks=False)
    except OSError:  # a file system without second names
        os.rename(rename.target, kept)
    return kept


def _rename(rename: Rename) -> None:
    if rename.source is None:
        Path(rename.target).unlink(missing_ok=True)
    else:
        os.replace(rename.source, rename.target)


def _sync_folders(renames: Iterable[Rename]) -> None:
    for folder in {Path(rename.target).parent for rename in renames}:
        _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
