"""Compresses the files of outputs after their parts have been joined.

A file is cut into members of equal size, regardless of the parts that contain its bytes, so that it does not depend on
the splits of the input. Tasks compress members; one task compresses the members of many small files.
"""

from __future__ import annotations

import itertools
import os
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.disk import durable
from spark_jobs.execute.delivery import destination
from spark_jobs.execute.delivery.destination import Content, PartRange, Segment
from spark_jobs.execute.spark import spread
from spark_jobs.nodes.output.packed import pack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import PartStore
    from spark_jobs.scan.compression import Compression
    from spark_jobs.tuning import Tuning

#: Bytes of a file in one member; the last member has the rest.
MEMBER_BYTES = 4 << 20
#: The content of a member: bytes, and ranges of parts.
_Member = tuple[Segment, ...]


@dataclass(frozen=True)
class _Batch:
    """Members that one task compresses, one after another, into one file of the depot."""

    members: tuple[_Member, ...]
    target: str
    compression: Compression


def compress_files(
    spark: SparkSession,
    part_store: PartStore,
    contents: Sequence[Content],
    compression: Compression,
    folder: str,
    tuning: Tuning,
) -> list[Content]:
    """The contents of files, compressed.

    Args:
        spark: runs the tasks.
        part_store: the store of parts.
        contents: the contents of the uncompressed files.
        compression: the compression.
        folder: the folder of the members in the depot.
        tuning: the bytes that a task compresses, and the bytes that the driver compresses itself.

    Raises:
        OSError: a part differs from what was written, or a member cannot be written.
    """
    # Parts of which only ranges are used have been checked before.
    for part in (part for content in contents for part in content.whole_parts):
        destination.check(part_store, part)
    files = [list(_members(content, MEMBER_BYTES)) for content in contents]
    batches = [
        _Batch(members, os.path.join(folder, f"{uuid.uuid4().hex}.packed"), compression)
        for members in _batches([member for members in files for member in members], tuning.pack_task_bytes)
    ]
    if sum(_size(member) for batch in batches for member in batch.members) <= tuning.driver_output_bytes:
        written = [_write(part_store, each) for each in batches]
    else:
        written = spread.parallel_map(spark, partial(_write, part_store), batches, reraised=(OSError,))
    ranges = itertools.chain.from_iterable(written)
    return [Content(tuple(itertools.islice(ranges, len(members)))) for members in files]


def _members(content: Content, most: int) -> Iterator[_Member]:
    """The members of a file, at least one. Each has `most` bytes, and the last one the rest."""
    held: list[Segment] = []
    room = most
    for found in content.laid_out():
        rest = found
        while size := destination.length(rest):
            taken = min(size, room)
            held.append(destination.cut(rest, 0, taken))
            rest, room = destination.cut(rest, taken, size), room - taken
            if not room:
                yield tuple(held)
                held, room = [], most
    if held or (room == most and not any(map(destination.length, content.laid_out()))):
        yield tuple(held)


def _size(member: _Member) -> int:
    return sum(map(destination.length, member))


def _batches(members: Sequence[_Member], most_bytes: int) -> Iterator[tuple[_Member, ...]]:
    """Neighboring members whose bytes make a task of useful size."""
    held: list[_Member] = []
    size = 0
    for member in members:
        held.append(member)
        size += _size(member)
        if size >= most_bytes:
            yield tuple(held)
            held, size = [], 0
    if held:
        yield tuple(held)


def _write(part_store: PartStore, wanted: _Batch) -> list[PartRange]:
    """Compress members. Returns their ranges; the path is a new one if a task is tried again."""
    path = f"{wanted.target}.{uuid.uuid4().hex}"
    found = []
    with durable.about(path), part_store.create(path) as sink:
        for member in wanted.members:
            data = pack(b"".join(destination.read(part_store, each) for each in member), wanted.compression)
            found.append(PartRange(path, sink.tell(), len(data)))
            sink.write(data)
    return found
