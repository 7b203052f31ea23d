"""Writes a run's dead-letter files: a few entries here, many by tasks of their own, each for a stretch of the input."""

from __future__ import annotations

import json
import os
import pickle
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.execute import cancellation, durable, joining

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.dead_letter import Assembly, Letterbox
    from spark_jobs.execute.joining import Piece
    from spark_jobs.execute.report import Letters

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


@dataclass(frozen=True)
class _Job:
    assembly: Assembly
    boxes: tuple[Letterbox, ...]
    stretches: tuple[Stretch, ...]


def write(
    spark: SparkSession, assembly: Assembly, boxes: Sequence[Letterbox], letters: Sequence[Letters], scratch: str
) -> list[list[Piece]]:
    """Write the rows of all dead letters; gives the part files of each letterbox, in record order."""
    found = [entry for entry in letters if entry.path]
    if not boxes or not found:
        return [[] for _ in boxes]
    stretches = _stretches(found, len(boxes), scratch)
    job = _Job(assembly, tuple(boxes), stretches)
    if sum(entry.count for entry in found) <= DRIVER_ENTRIES:
        sizes = [_write_stretch(job, number) for number in range(len(stretches))]
    else:
        sizes = _run(spark, job)
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


def _write_stretch(job: _Job, number: int) -> list[int]:
    """Write the rows of a stretch; gives their bytes per letterbox."""
    stretch = job.stretches[number]
    sizes = []
    for box, part in zip(job.boxes, stretch.parts, strict=True):
        # A task that is tried again must not write into the file of the one it replaces.
        aside = f"{part}.{uuid.uuid4().hex}"
        with durable.about(aside):
            sizes.append(job.assembly.write(box, stretch.files, stretch.splits, aside))
        os.replace(aside, part)
    return sizes


def _run(spark: SparkSession, job: _Job) -> list[list[int]]:
    """One task per stretch; a task that is tried again writes its files anew."""
    pickled = pickle.dumps(job, protocol=pickle.HIGHEST_PROTOCOL)
    count = len(job.stretches)
    frame = spark.range(0, count, 1, count).mapInArrow(partial(run_task, pickled), "number long, sizes string")
    told = cancellation.cancellable(spark, frame.toArrow).to_pylist()
    return [json.loads(row["sizes"]) for row in sorted(told, key=lambda row: row["number"])]


def run_task(pickled: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What `mapInArrow` calls: rows with the numbers of stretches in, the bytes of their parts out."""
    job: _Job = pickle.loads(pickled)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            sizes = json.dumps(_write_stretch(job, number))
            yield pa.RecordBatch.from_pydict({"number": pa.array([number], pa.int64()), "sizes": pa.array([sizes])})
