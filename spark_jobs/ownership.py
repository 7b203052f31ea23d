"""Checks that an existing file can be trusted, because only this user can have made it.

Some files do more than hold data: a journal tells a run what to rename, a cache is unpickled, an archive is mapped
into a JVM. Whoever could write such a file could act as this user, so it counts only when the file and its folder are
the user's own and nobody else may write them. Files are opened without following links, below a folder that is open
already, so that nothing can be put in their place between the look and the use. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: A FIFO or a device would hold its opener for ever.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ROOT = 0


class NotOwnError(PermissionError):
    """Another user may have created or changed a file; `strerror` says how."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(1, reason, str(path))


def is_own(found: os.stat_result) -> bool:
    """True if a file or folder belongs to this user, and no other user may write it."""
    return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE


def check(descriptor: int, path: str | Path) -> None:
    """Refuse an open file or folder that is not this user's alone.

    Raises:
        NotOwnError: it is another user's, or others may write it, or it has a second name.
    """
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise NotOwnError(path, "belongs to another user")
    if found.st_mode & _OTHERS_WRITE:
        raise NotOwnError(path, "can be written by other users")
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise NotOwnError(path, "has a second name elsewhere")


@contextmanager
def placed(folder: int | None) -> Iterator[None]:
    """Within, errors about a name in an open folder get its whole path, where the system knows it."""
    try:
        yield
    except OSError as error:
        name = error.filename
        if folder is None or not isinstance(name, str) or os.path.isabs(name):
            raise
        try:
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
        except OSError:
            raise error from None
        raise OSError(error.errno, error.strerror, path) from error


def open_folder(path: str | Path, folder: int | None = None) -> int:
    """A descriptor of a folder, which must not be a link; a relative path is below an open folder.

    Raises:
        OSError: it is missing, a link, or no folder.
    """
    with placed(folder):
        return os.open(path, _FOLDER, dir_fd=folder)


def open_file(path: str | Path, folder: int | None = None, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of a regular file, which must not be a link.

    Raises:
        NotOwnError: it is a link, or no regular file.
        OSError: it is missing, or cannot be opened.
    """
    try:
        with placed(folder):
            descriptor = os.open(path, flags | _FILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise NotOwnError(path, "is a link") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotOwnError(path, "is not a regular file")
    return descriptor


def read(name: str, folder: int, most: int) -> bytes:
    """The bytes of a file of one's own in an open folder.

    Raises:
        NotOwnError: others may have made it, or it has more than `most` bytes.
        OSError: it cannot be read.
    """
    with open(open_file(name, folder), "rb") as file:
        check(file.fileno(), name)
        if os.fstat(file.fileno()).st_size > most:
            raise NotOwnError(name, f"has more than {most} bytes")
        return file.read(most)


def is_own_place(folder: Path) -> bool:
    """True if a folder belongs to this user and stays at its path: no other user can replace it.

    Use it for paths that other code opens. Parent folders may belong to root, or be sticky like `/tmp`.
    """
    try:
        real = folder.resolve(strict=True)
        return is_own(real.stat()) and all(_holds(parent.stat()) for parent in real.parents)
    except OSError:
        return False


def _holds(found: os.stat_result) -> bool:
    """True if others cannot replace what a folder has."""
    is_trusted = found.st_uid in (_ROOT, os.geteuid())
    return is_trusted and bool(found.st_mode & stat.S_ISVTX or not found.st_mode & _OTHERS_WRITE)


def is_own_file(path: Path) -> bool:
    """True if a file is regular, one's own, and in a place of one's own."""
    try:
        descriptor = open_file(path)
    except OSError:
        return False
    try:
        check(descriptor, path)
    except NotOwnError:
        return False
    finally:
        os.close(descriptor)
    return is_own_place(path.parent)


def cache_folder(*, make: bool = False) -> Path | None:
    """`clinker` in the user's cache folder; None if there is none, or when others could put files there.

    Where the system does not tell whose files are, there is no cache.
    """
    if not hasattr(os, "geteuid"):
        return None
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
        folder = base / "clinker"
        if make:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):  # nothing can be written there, or the user has no home
        return None
    return folder if is_own_place(folder) else None
