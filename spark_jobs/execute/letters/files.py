"""Writes a run's dead-letter files: a few entries here, many by tasks of their own, each for a range of the input."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.disk import durable
from spark_jobs.execute.delivery import destination
from spark_jobs.execute.letters.rows import letterboxes
from spark_jobs.execute.spark import spread
from spark_jobs.nodes.output import packed
from spark_jobs.scan import compression

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import Depot, Draft, Piece
    from spark_jobs.execute.letters.rows import Letterbox, Rows
    from spark_jobs.execute.tasks.report import Letters

#: Up to this many entries the driver writes itself: a job costs more than some megabytes of text.
DRIVER_ENTRIES = 10_000
#: Tasks that share a larger number of entries.
_TASKS = 64


@dataclass(frozen=True)
class EntryRange:
    """The entries that name some splits: the letters they are in, and where their rows go for each letterbox.

    `number` is that of the range among all.
    """

    number: int
    splits: tuple[int, int]
    letters: tuple[Letters, ...]
    parts: tuple[str, ...]


def deliver(
    spark: SparkSession, made: Rows, letters: Sequence[Letters], paths: Mapping[str, str], draft: Draft
) -> tuple[str, ...]:
    """The dead-letter files of a run, in place of an older run's; gives the paths of those that have entries.

    The common one is the first.

    Args:
        spark: runs tasks, where there is much to write.
        made: makes the rows.
        letters: what tasks have left.
        paths: each source's own file, and the common one under `""`.
        draft: gets the files.
    """
    boxes = letterboxes(made.errors, made.inputs, paths)
    written: list[str] = []
    for box, pieces in zip(boxes, write(spark, made, boxes, letters, draft), strict=True):
        if pieces:
            header = packed.pack(made.header(box), compression.of_name(box.path))
            content = destination.Content(tuple(pieces), header, uses_up=True)
            draft.assemble(Path(box.path), content)
            written.append(box.path)
        else:
            draft.remove(Path(box.path))
    return tuple(sorted(written, key=lambda path: path != paths.get("")))


def write(
    spark: SparkSession, made: Rows, boxes: Sequence[Letterbox], letters: Sequence[Letters], draft: Draft
) -> list[list[Piece]]:
    """Write the rows of all dead letters; gives the parts of each letterbox, in record order."""
    found = [entry for entry in letters if entry.path]
    if not boxes or not found:
        return [[] for _ in boxes]
    many = sum(entry.count for entry in letters) > DRIVER_ENTRIES
    ranges = _ranges(found, [draft.parts(Path(box.path)) for box in boxes], many=many)
    writing = partial(_write_range, draft.depot, made, tuple(boxes))
    if not many:
        written = [writing(each) for each in ranges]
    else:
        written = spread.spread(spark, writing, ranges)
    return [[pieces[i] for pieces in written if pieces[i].size] for i in range(len(boxes))]


def _ranges(letters: Sequence[Letters], folders: Sequence[str], *, many: bool) -> tuple[EntryRange, ...]:
    """The splits that entries name, cut into ranges of about as many splits."""
    first = min(entry.splits[0] for entry in letters)
    last = max(entry.splits[1] for entry in letters)
    size = max(1, -(-(last - first + 1) // _TASKS)) if many else last - first + 1
    ranges: list[EntryRange] = []
    for start in range(first, last + 1, size):
        splits = (start, start + size - 1)
        found = [each for each in letters if each.splits[0] <= splits[1] and each.splits[1] >= splits[0]]
        if found:
            parts = [f"{folder}/letters-{len(ranges)}-{i}" for i, folder in enumerate(folders)]
            ranges.append(EntryRange(len(ranges), splits, tuple(found), tuple(parts)))
    return tuple(ranges)


def _write_range(depot: Depot, made: Rows, boxes: Sequence[Letterbox], wanted: EntryRange) -> list[Piece]:
    """Write the rows of a range; gives the part of each letterbox, which has another path when a task tries again."""
    pieces = []
    for box, part in zip(boxes, wanted.parts, strict=True):
        path = f"{part}.{uuid.uuid4().hex}.rows"
        with durable.about(path), depot.create(path) as file:
            rows = packed.PackedFile(file, compression.of_name(box.path))
            made.write(box, wanted.letters, wanted.splits, rows, wanted.number)
            size = rows.finish()
        pieces.append(destination.whole(path, size))
    return pieces
