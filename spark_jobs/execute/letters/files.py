"""Writes a run's dead-letter files: a few entries here, many by tasks of their own, each for a stretch of the input."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.disk import durable
from spark_jobs.execute.delivery import joining
from spark_jobs.execute.spark import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.joining import Piece
    from spark_jobs.execute.letters.dead_letter import Assembly, Letterbox
    from spark_jobs.execute.tasks.report import Letters

#: Up to this many entries the driver writes itself: a job costs more than some megabytes of text.
DRIVER_ENTRIES = 10_000
#: Tasks that share a larger number of entries.
_TASKS = 64


@dataclass(frozen=True)
class Stretch:
    """The entries that name some splits: the files they are in, and where their rows go for each letterbox."""

    splits: tuple[int, int]
    files: tuple[str, ...]
    parts: tuple[str, ...]


def write(
    spark: SparkSession, assembly: Assembly, boxes: Sequence[Letterbox], letters: Sequence[Letters], scratch: str
) -> list[list[Piece]]:
    """Write the rows of all dead letters; gives the part files of each letterbox, in record order."""
    found = [entry for entry in letters if entry.path]
    if not boxes or not found:
        return [[] for _ in boxes]
    stretches = _stretches(found, len(boxes), scratch)
    writing = partial(_write_stretch, assembly, tuple(boxes))
    if sum(entry.count for entry in found) <= DRIVER_ENTRIES:
        sizes = [writing(stretch) for stretch in stretches]
    else:
        sizes = spread.spread(spark, writing, stretches)
    return [
        [joining.whole(stretch.parts[i], told[i]) for stretch, told in zip(stretches, sizes, strict=True) if told[i]]
        for i in range(len(boxes))
    ]


def _stretches(letters: Sequence[Letters], boxes: int, scratch: str) -> tuple[Stretch, ...]:
    """The splits that entries name, cut into stretches of about as many splits."""
    first = min(entry.splits[0] for entry in letters)
    last = max(entry.splits[1] for entry in letters)
    many = sum(entry.count for entry in letters) > DRIVER_ENTRIES
    size = max(1, -(-(last - first + 1) // _TASKS)) if many else last - first + 1
    stretches: list[Stretch] = []
    for start in range(first, last + 1, size):
        splits = (start, start + size - 1)
        files = [e.path for e in letters if e.path and e.splits[0] <= splits[1] and e.splits[1] >= splits[0]]
        if files:
            parts = [os.path.join(scratch, f"letters-{len(stretches)}-{i}.rows") for i in range(boxes)]
            stretches.append(Stretch(splits, tuple(files), tuple(parts)))
    return tuple(stretches)


def _write_stretch(assembly: Assembly, boxes: Sequence[Letterbox], stretch: Stretch) -> list[int]:
    """Write the rows of a stretch; gives their bytes per letterbox. A task that is tried again writes them anew."""
    sizes = []
    for box, part in zip(boxes, stretch.parts, strict=True):
        # A task that is tried again must not write into the file of the one it replaces.
        aside = f"{part}.{uuid.uuid4().hex}"
        with durable.about(aside):
            sizes.append(assembly.write(box, stretch.files, stretch.splits, aside))
        os.replace(aside, part)
    return sizes
