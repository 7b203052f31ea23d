"""Publishing: everything is written aside, and becomes visible by renames when the run has succeeded.

Each run has a staging folder `.clinker-<execution id>` beside every file it will publish, so that the last step is a
rename within one file system. A staging folder is locked by its run. Before the first rename the list of renames is
written down as a *journal* and synced; a run that dies among the renames is completed by the next run that touches the
folder, one that dies earlier leaves only a folder without owner, which the next run removes. So a reader sees the old
files or the new ones.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PREFIX = ".clinker-"
_LOCK = "lock"
_JOURNAL = "journal.json"
_COPY_BYTES = 64 << 20
_REMOVALS = 30
_REMOVAL_PAUSE_S = 0.1


@dataclass(frozen=True)
class Rename:
    """A finished file and the name it gets; `source` None removes what is there (dead letters of an older run)."""

    source: str | None
    target: str


@dataclass(frozen=True)
class Piece:
    """A stretch of a part file, in bytes."""

    path: str
    start: int
    size: int


@dataclass
class Staging:
    """The staging folders of a run. `home` is the one that holds the journal and what stays inside the run."""

    run: str
    home: Path
    folders: list[Path] = field(default_factory=list)
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
        path = beside / f"{PREFIX}{self.run}"
        if path in self.folders:
            return path
        self._made += [parent for parent in (beside, *beside.parents) if not parent.exists()]
        beside.mkdir(parents=True, exist_ok=True)
        recover(beside)
        lock = None
        while lock is None:  # another run may take the folder for a dead one's before it is locked
            path.mkdir(exist_ok=True)
            lock = _locked(path, wait=True)
        self._locks.append(lock)
        self.folders.append(path)
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
        journal = self.home / _JOURNAL
        partial = journal.with_suffix(".partial")
        with partial.open("w") as file:
            json.dump([[rename.source, rename.target] for rename in renames], file)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(journal)
        _sync(self.home)
        try:
            _rename_or_restore(renames)
        finally:
            journal.unlink()

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
        self._locks.clear()


def remove(folder: Path) -> None:
    """Remove a folder that tasks which are being stopped may still write into, as far as the system allows.

    The lock goes last: a process that dies in here leaves a folder that `recover` can take. Tasks make files but no
    folders: once the folder is gone it stays away.
    """
    for _ in range(_REMOVALS):
        for path in folder.glob("*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_REMOVAL_PAUSE_S)


def _locked(folder: Path, *, wait: bool) -> IO[bytes] | None:
    """A staging folder's lock, held; None when the folder was removed meanwhile, or a living run has it."""
    try:
        lock = open(folder / _LOCK, "ab")  # noqa: SIM115 - held until the caller closes it
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.path.samestat(os.fstat(lock.fileno()), os.stat(folder / _LOCK)):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass  # held by another, or removed between making and locking it
    lock.close()
    return None


def recover(folder: Path) -> list[Path]:
    """Complete or remove what runs that died left in a folder; gives the staging folders that were cleared.

    A staging folder whose lock is held belongs to a living run and is left alone. One without a lock was left by a
    run that died making or removing it; should it be one that is being made, its run makes it again.
    """
    cleared = []
    for path in sorted(folder.glob(f"{PREFIX}*")):
        if not path.is_dir():
            continue
        lock = _locked(path, wait=False)
        if lock is None:
            continue
        with lock:
            journal = path / _JOURNAL
            if journal.exists():
                renames = [Rename(source, target) for source, target in json.loads(journal.read_text())]
                for rename in renames:
                    _rename(rename)
                _sync_folders(renames)
            remove(path)
            cleared.append(path)
    return cleared


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
    elif Path(rename.source).exists():  # else an earlier attempt has done it
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


def join(parts: Sequence[str], target: Path, *, start: bytes, separator: bytes, end: bytes, trailing: int = 0) -> int:
    """Put part files together into one; gives its size in bytes.

    The bytes move inside the kernel where the platform can; the first part is extended in place when nothing stands
    before it. `trailing` is how many bytes the last part has too much.
    """
    if parts and not start and Path(parts[0]).parent == target.parent:
        os.replace(parts[0], target)
        rest, mode = parts[1:], "r+b"
    else:
        rest, mode = parts, "wb"
    with target.open(mode) as file:
        file.seek(0, os.SEEK_END)
        file.write(start)
        for position, part in enumerate(rest):
            if separator and (position > 0 or mode == "r+b"):
                file.write(separator)
            _append(file, Piece(part, 0, os.path.getsize(part)))
            os.unlink(part)
        return _ended(file, end, trailing)


def copy(pieces: Sequence[Piece], target: Path, *, start: bytes, end: bytes, trailing: int) -> int:
    """Put pieces of part files, which stay, together into one file; gives its size in bytes."""
    with target.open("wb") as file:
        file.write(start)
        for piece in pieces:
            _append(file, piece)
        return _ended(file, end, trailing)


def _ended(file: IO[bytes], end: bytes, trailing: int) -> int:
    file.flush()
    if trailing:
        file.truncate(file.seek(-trailing, os.SEEK_END))
    file.write(end)
    file.flush()
    return file.tell()


def _append(file: IO[bytes], piece: Piece) -> None:
    file.flush()
    at, left = piece.start, piece.size
    with open(piece.path, "rb", buffering=0) as source:
        while left > 0:
            moved = _move(source, file, at, min(left, _COPY_BYTES))
            if not moved:
                break
            at += moved
            left -= moved
        file.seek(0, os.SEEK_END)
        source.seek(at)
        while left > 0 and (data := source.read(min(left, 1 << 20))):
            file.write(data)
            left -= len(data)
    if left:
        raise OSError(errno.EIO, "is shorter than it was when it was written", piece.path)


def _move(source: IO[bytes], target: IO[bytes], start: int, count: int) -> int:
    """Move bytes inside the kernel; 0 where that does not work."""
    sendfile = getattr(os, "sendfile", None)
    if sendfile is None:
        return 0
    try:
        moved: int = sendfile(target.fileno(), source.fileno(), start, count)
    except OSError:
        return 0
    return moved
