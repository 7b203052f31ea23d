"""Reads small files that people write: regular ones only, up to a size, never waiting for another process.

They may be objects of a store, too.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.stores.location import FilePath, Location

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Opening a pipe waits for nobody, and a terminal becomes nobody's.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True)
class Recorded:
    """The files that something depends on, in the order in which they were first looked for.

    They are known by their absolute paths, or their places in a store.

    Args:
        read: the files that were read, with digests of their bytes.
        absent: files that were looked for and do not exist: each would have been taken instead of another one.
        real: the real paths of files whose links were resolved, by the requested paths.
    """

    read: dict[FilePath, str] = field(default_factory=dict)
    absent: dict[FilePath, None] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)

    @property
    def has_objects(self) -> bool:
        """True if some of them are in a store, or looked for there."""
        return any(isinstance(each, Location) for each in (*self.read, *self.absent))


_RECORDED: ContextVar[Recorded | None] = ContextVar("recorded", default=None)


class NotRegular(OSError):
    """A folder, a pipe, a device, or a generated file such as those below `/proc`."""

    def __init__(self, path: Path) -> None:
        super().__init__(None, "it is not a regular file", str(path))


class TooLarge(Exception):
    """A file of more bytes than such files have."""


@contextmanager
def recorded() -> Iterator[Recorded]:
    """The files that are read and looked for in the block."""
    found = Recorded()
    before = _RECORDED.set(found)
    try:
        yield found
    finally:
        _RECORDED.reset(before)


def is_there(path: str | os.PathLike[str] | Location) -> bool:
    """True if a path is a file that can be read, also through a link; or a place in a store, an object.

    Raises:
        StoreError: a store does not say.
    """
    if isinstance(path, Location):
        from spark_jobs.stores import small_objects

        found = small_objects.is_there(path)
    else:
        found = os.path.isfile(path)
    if not found and (files := _RECORDED.get()) is not None:
        files.absent[path if isinstance(path, Location) else Path(os.path.abspath(path))] = None
    return found


def digest_of(content: bytes) -> str:
    """Give a digest of the bytes of a file."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def real_path(path: str | os.PathLike[str]) -> str:
    """The absolute path of a file or folder, with all links resolved."""
    found = os.path.realpath(path)
    if (files := _RECORDED.get()) is not None:
        files.real[os.path.join(os.getcwd(), path)] = found
    return found


def read(path: FilePath, most_bytes: int) -> bytes:
    """All bytes of a file or object.

    Args:
        path: where it is.
        most_bytes: how many it may have.

    Raises:
        OSError: it cannot be read, is not a regular file, or has fewer bytes than the file system says; `StoreError`
            where a store refuses.
        TooLarge: it has more bytes than it may have.
    """
    if isinstance(path, Location):
        found = _object(path, most_bytes)
    else:
        found = _file(path, most_bytes)
    if (files := _RECORDED.get()) is not None:
        place = path if isinstance(path, Location) else Path(os.path.abspath(path))
        digest = digest_of(found)
        # A file that changes while it is read twice has no digest: nothing that is remembered fits it.
        files.read[place] = digest if files.read.get(place, digest) == digest else ""
    return found


def _object(location: Location, most_bytes: int) -> bytes:
    from spark_jobs.stores import small_objects

    try:
        return small_objects.read(location, most_bytes)
    except small_objects.TooLarge as error:
        raise TooLarge(str(error)) from None


def _file(path: Path, most_bytes: int) -> bytes:
    # Asked before it is opened, as opening a device may do something.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise NotRegular(path)
    with open(os.open(path, _FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotRegular(path)
        if status.st_size > most_bytes:
            raise TooLarge(str(path))
        found = file.read(status.st_size + 1)
    if len(found) != status.st_size:
        raise NotRegular(path)
    return found
