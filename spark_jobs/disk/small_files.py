"""Reads small files that people write: regular ones only, up to a size, never waiting for another process."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Opening a pipe waits for nobody, and a terminal becomes nobody's.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True)
class Recorded:
    """The files that something depends on, by their absolute paths, in the order in which they were first looked for.

    Args:
        read: those that were read.
        absent: those that were looked for and are not there: each would have been taken instead of another one.
    """

    read: dict[Path, None] = field(default_factory=dict)
    absent: dict[Path, None] = field(default_factory=dict)


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


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a file that can be read, also through a link."""
    found = os.path.isfile(path)
    if not found and (files := _RECORDED.get()) is not None:
        files.absent[Path(os.path.abspath(path))] = None
    return found


def read(path: Path, most_bytes: int) -> bytes:
    """All bytes of a file.

    Args:
        path: where it is.
        most_bytes: how many it may have.

    Raises:
        OSError: it cannot be read, is not a regular file, or has fewer bytes than the file system says.
        TooLarge: it has more bytes than it may have.
    """
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
    if (files := _RECORDED.get()) is not None:
        files.read[Path(os.path.abspath(path))] = None
    return found
