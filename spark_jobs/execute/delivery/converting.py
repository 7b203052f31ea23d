"""Converts the parts of outputs in columnar formats after they have been joined.

Tasks do this, one for each file. So a folder of parts is converted by all tasks, and a single file by one.
"""

from __future__ import annotations

import errno
import io
import os
import uuid
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING

from spark_jobs.disk import durable
from spark_jobs.execute.delivery import destination
from spark_jobs.execute.spark import spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import PartRange, PartStore
    from spark_jobs.formats.format import ColumnWriter
    from spark_jobs.tuning import Tuning


@dataclass(frozen=True)
class _File:
    """A file to be written.

    Args:
        ranges: the ranges of parts of which it consists.
        target: its path in the depot.
        moved: the ranges contain single records in the row format, without a columnar file around them.
        checked: the parts are known to be complete.
    """

    ranges: tuple[PartRange, ...]
    target: str
    moved: bool
    checked: bool


def convert(
    spark: SparkSession,
    part_store: PartStore,
    writer: ColumnWriter,
    groups: Sequence[Sequence[PartRange]],
    folder: str,
    tuning: Tuning,
    *,
    moved: bool = False,
    checked: bool = False,
) -> list[list[PartRange]]:
    """The files of some groups of ranges, each a range; none of a group that is empty.

    Where their records `moved` alone, and the parts are `checked`, ranges may be ranges of them.

    Raises:
        OSError: a range is not as it was written, or a file cannot be.
    """
    wanted = [
        _File(tuple(group), os.path.join(folder, f"{uuid.uuid4().hex}.made"), moved, checked)
        for group in groups
        if group
    ]
    if sum(part_range.size for each in wanted for part_range in each.ranges) <= tuning.driver_output_bytes:
        made = [_write(part_store, writer, each) for each in wanted]
    else:
        made = spread.parallel_map(spark, partial(_write, part_store, writer), wanted, reraised=(OSError,))
    files = iter(made)
    return [[next(files)] if group else [] for group in groups]


def displayed_bytes(
    part_store: PartStore, writer: ColumnWriter, ranges: Sequence[PartRange], *, moved: bool = False
) -> bytes:
    """The contents of some ranges, for display."""
    return writer.show(open_joined(part_store, writer, ranges, moved=moved), moved=moved)


def _write(part_store: PartStore, writer: ColumnWriter, wanted: _File) -> PartRange:
    """Write a file. Returns its range; the path is a new one if a task is tried again."""
    for part_range in () if wanted.checked else wanted.ranges:
        destination.check(part_store, part_range)
    path = f"{wanted.target}.{uuid.uuid4().hex}"
    with durable.about(path), part_store.create(path) as sink:
        writer.convert(open_joined(part_store, writer, wanted.ranges, moved=wanted.moved), sink, moved=wanted.moved)
        return destination.whole(path, sink.tell())


def open_joined(part_store: PartStore, writer: ColumnWriter, ranges: Sequence[PartRange], *, moved: bool) -> IO[bytes]:
    """The contents of some ranges, as one stream."""
    return io.BufferedReader(_Chain(_streams(part_store, writer, ranges, moved=moved)))


def _streams(
    part_store: PartStore, writer: ColumnWriter, ranges: Sequence[PartRange], *, moved: bool
) -> Iterator[tuple[IO[bytes], int]]:
    """The streams that follow one another, each with its number of bytes."""
    start, end = (b"", b"") if moved else (writer.start, writer.end)
    yield io.BytesIO(start), len(start)
    for part_range in ranges:
        with part_store.open(part_range.path) as source:
            source.seek(part_range.start)
            yield source, part_range.size
    yield io.BytesIO(end), len(end)


class _Chain(io.RawIOBase):
    """Files read one after the other as if they were one."""

    def __init__(self, streams: Iterator[tuple[IO[bytes], int]]) -> None:
        super().__init__()
        self._streams = streams
        self._now: tuple[IO[bytes], int] | None = next(streams)

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # memory is all that is ever given
        """The next bytes; 0 at the end.

        Raises:
            OSError: a file has fewer bytes than it should have.
        """
        while self._now is not None:
            source, left = self._now
            if not left:
                self._now = next(self._streams, None)
                continue
            data = source.read(min(len(buffer), left))
            if not data:
                raise OSError(errno.EIO, f"a part has {left} bytes fewer than were written to it; run again")
            self._now = source, left - len(data)
            buffer[: len(data)] = data
            return len(data)
        return 0
