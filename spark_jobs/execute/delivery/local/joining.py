"""Joins local part files, and checks the sizes that their tasks reported."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING

from spark_jobs.disk import durable
from spark_jobs.execute.delivery import destination
from spark_jobs.execute.delivery.local.part_store import LocalPartStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.execute.delivery.destination import Content, PartRange

_COPY_BYTES = 64 << 20


def join(content: Content, target: Path) -> int:
    """Write a file. Returns its size in bytes.

    The bytes move inside the kernel if the platform can do that. Parts that are not needed elsewhere are removed after
    they have been read, and the first part is extended in place if no text precedes it.

    Raises:
        OSError: a part differs from what was written, or the file cannot be written.
    """
    rest, mode, known = content.ranges, "wb", 0
    if content.uses_up:
        for path, segments in _by_part(rest):
            destination.check(LocalPartStore(), destination.whole(path, sum(each.size for each in segments)))
        is_begun = bool(rest) and not content.start and not any(part_range.before for part_range in rest)
        if is_begun and Path(rest[0].path).parent == target.parent:
            os.replace(rest[0].path, target)
            rest, mode, known = rest[1:], "r+b", rest[0].size
    with durable.about(target), target.open(mode) as file:
        file.seek(known)
        file.write(content.start)
        for position, part_range in enumerate(rest):
            if content.separator and (position > 0 or mode == "r+b"):
                file.write(content.separator)
            file.write(part_range.before)
            _append(file, part_range)
            if content.uses_up and (position + 1 == len(rest) or rest[position + 1].path != part_range.path):
                os.unlink(part_range.path)
        return _ended(file, content.end, content.trailing)


def _by_part(ranges: Sequence[PartRange]) -> Iterator[tuple[str, list[PartRange]]]:
    """The ranges of each part, which are contiguous."""
    for path, group in itertools.groupby(ranges, key=lambda part_range: part_range.path):
        yield path, list(group)


def _ended(file: IO[bytes], end: bytes, trailing: int) -> int:
    file.flush()
    if trailing:
        file.truncate(file.seek(-trailing, os.SEEK_END))
    file.write(end)
    file.flush()
    return file.tell()


def _append(file: IO[bytes], part_range: PartRange) -> None:
    file.flush()
    at, left = part_range.start, part_range.size
    with open(part_range.path, "rb", buffering=0) as source:
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
        raise OSError(errno.EIO, "is shorter than what was written to it; run again", part_range.path)


def _move(source: IO[bytes], target: IO[bytes], start: int, count: int) -> int:
    """Move bytes inside the kernel. Returns 0 if that is not possible."""
    sendfile = getattr(os, "sendfile", None)
    if sendfile is None:
        return 0
    try:
        moved: int = sendfile(target.fileno(), source.fileno(), start, count)
    except OSError:
        return 0
    return moved
