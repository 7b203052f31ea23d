"""Durable writes: data is on the disk before anything depends on it."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.disk import system_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The errors of file systems that cannot sync folders (SMB, some in user space). Syncing the files still counts.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)

#: The prefix of names that a run makes for itself, next to its outputs.
OWN_PREFIX = ".clinker-"
#: The end of Arrow's messages, which contains the system's error.
_OF_ARROW = "Detail: [errno "

#: More files than these are synced by so many threads, which are given so many at a time.
_FEW_FILES, _THREADS, _PORTION = 16, 16, 4096


def describe(error: OSError, place: str = "") -> str:
    """The message of a system error, with the path that it is about, or else `place`; of a rename both paths."""
    path = str(error.filename) if error.filename is not None else place
    if error.filename2 is not None:
        path = f"{path} -> {error.filename2}"
    said = f"{error.strerror or error}{system_errors.remedy(error)}"
    if error.errno == errno.ENOENT and any(part.startswith(OWN_PREFIX) for part in path.split(os.sep)):
        said += "; it is the run's own, and somebody has removed or moved its folder: run again"
    return f"{path}: {said}" if path else said


@contextmanager
def about(path: str | Path) -> Iterator[None]:
    """Within, errors of the system that name no file are about this one."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise of_file(error, path) from error


def make_folder(path: Path, mode: int = 0o777, *, exist_ok: bool = False) -> None:
    """Make a folder, and the missing ones above it.

    Raises:
        OSError: it cannot be made. The message says if the file system makes no folders, as that of `/proc` does not.
    """
    try:
        path.mkdir(mode, parents=True, exist_ok=exist_ok)
    except FileNotFoundError as error:
        # Such a file system answers as if the folder above were missing.
        refused = Path(error.filename)
        if not refused.parent.is_dir():
            raise
        said = f"no folder can be made in {refused.parent}, whose file system takes none: choose another place"
        raise OSError(errno.EOPNOTSUPP, said, str(refused)) from error


def of_file(error: OSError, path: str | Path) -> OSError:
    """The same error with the name of a file, and with the system's message if a library has put its own around it."""
    said = error.strerror or str(error)
    if error.errno and _OF_ARROW in said:
        said = os.strerror(error.errno)
    return OSError(error.errno, said, str(path))


def sync(path: str | Path) -> None:
    """Wait until a file's bytes are on the disk."""
    _sync(path, os.O_RDONLY | os.O_CLOEXEC)


def sync_files(paths: Sequence[str]) -> None:
    """Wait until the bytes of several files are on the disk.

    Many files are synced by several threads: a file system writes requests that arrive together at once, and waiting
    for one after another would take some seconds for a thousand files.
    """
    if len(paths) <= _FEW_FILES:
        for path in paths:
            sync(path)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        for first in range(0, len(paths), _PORTION):
            list(pool.map(sync, paths[first : first + _PORTION]))  # the first that fails is raised


def sync_folder(path: str | Path) -> None:
    """Wait until the names in a folder are on the disk, where its file system can do that."""
    try:
        _sync(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def _sync(path: str | Path, flags: int) -> None:
    with about(path):
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_folders(paths: Iterable[str]) -> None:
    """Wait for the names in several folders."""
    for path in sorted(set(paths)):
        sync_folder(path)


def replace_text(path: Path, text: str, newline: str | None = None) -> None:
    """Write a file for people: it is there as a whole, or stays as it was.

    A link is followed, and the file keeps its permissions. A terminal, a pipe, or a file in a folder without write
    permission is written directly.

    Args:
        path: where it goes.
        text: what will be in it, in UTF-8.
        newline: the translation of line ends, as for `open`.

    Raises:
        OSError: it cannot be written; it names the path.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            _write_text(target, text, newline, "w")
            return
        partial = target.with_name(f"{OWN_PREFIX}{uuid.uuid4().hex}.partial")
        try:
            _write_text(partial, text, newline, "x")
            if target.exists():
                partial.chmod(stat.S_IMODE(target.stat().st_mode))
            partial.replace(target)
        except PermissionError:
            partial.unlink(missing_ok=True)
            _write_text(target, text, newline, "r+" if target.exists() else "w")
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise of_file(error, path) from error


def _write_text(path: Path, text: str, newline: str | None, mode: str) -> None:
    with path.open(mode, encoding="utf-8", newline=newline) as file:
        file.write(text)
        file.flush()
        if path.is_file():
            file.truncate()
            os.fsync(file.fileno())


def write_file(path: Path, data: bytes | bytearray) -> None:
    """A file that is there as a whole or not at all, also after a loss of power."""
    partial = path.with_name(f"{path.name}.partial")
    with about(partial), partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    sync_folder(path.parent)
