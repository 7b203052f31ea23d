"""Putting part files together, by the sizes that the tasks have told that wrote them.

What a file system says of a size is not enough: a part may have lost bytes without anybody being told.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from spark_jobs.disk import durable

if TYPE_CHECKING:
    from collections.abc import Sequence

_COPY_BYTES = 64 << 20


@dataclass(frozen=True)
class Piece:
    """A stretch of a part file, in bytes."""

    path: str
    start: int
    size: int


def whole(path: str, size: int) -> Piece:
    """A part file from its beginning to its end, which is where its task said that it is."""
    return Piece(path, 0, size)


def check(part: Piece) -> None:
    """Refuse a part that has not the bytes that its task has written: it was cut off, or somebody else has changed it.

    Raises:
        OSError: it has more or fewer, or is gone.
    """
    found = os.stat(part.path).st_size
    if found != part.size:
        text = f"has {found} bytes, but {part.size} were written to it: it was cut off or changed; run again"
        raise OSError(errno.EIO, text, part.path)


def join(parts: Sequence[Piece], target: Path, *, start: bytes, separator: bytes, end: bytes, trailing: int = 0) -> int:
    """Put whole part files together into one; gives its size in bytes.

    The bytes move inside the kernel where the platform can; the first part is extended in place when nothing stands
    before it. `trailing` is how many bytes the last part has too much.

    Raises:
        OSError: a part is not as it was written, or the file cannot be.
    """
    for part in parts:
        check(part)
    if parts and not start and Path(parts[0].path).parent == target.parent:
        os.replace(parts[0].path, target)
        rest, mode, known = parts[1:], "r+b", parts[0].size
    else:
        rest, mode, known = parts, "wb", 0
    with durable.about(target), target.open(mode) as file:
        file.seek(known)
        file.write(start)
        for position, part in enumerate(rest):
            if separator and (position > 0 or mode == "r+b"):
                file.write(separator)
            _append(file, part)
            os.unlink(part.path)
        return _ended(file, end, trailing)


def copy(pieces: Sequence[Piece], target: Path, *, start: bytes, end: bytes, trailing: int) -> int:
    """Put pieces of part files, which stay, together into one file; gives its size in bytes."""
    with durable.about(target), target.open("wb") as file:
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
        raise OSError(errno.EIO, "is shorter than what was written to it; run again", piece.path)


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
