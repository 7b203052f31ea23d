"""Merges the sorted runs of sorted outputs: each task merges a range of the sort keys.

The runs are part files with an index (see `nodes/output/records.py`). Ranges of about equal size are chosen from the
first key of each index block. A task reads the blocks of all runs that overlap its range, and writes the records in
order. No two records have the same key, so the cut between equal records does not matter.
"""

from __future__ import annotations

import errno
import itertools
import os
import uuid
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.disk import durable
from spark_jobs.execute.delivery import destination
from spark_jobs.execute.spark import spread
from spark_jobs.formats import format
from spark_jobs.nodes import sorted_runs, sorting
from spark_jobs.nodes.output import records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import PartRange, PartStore
    from spark_jobs.formats.frame import Frame
    from spark_jobs.nodes.sorted_runs import Key
    from spark_jobs.tuning import Tuning

_BY = (records.KEY,)


@dataclass(frozen=True, slots=True)
class SortedPart:
    """A part with sorted records, its note for the format's frame, and the bytes of its records."""

    part_range: PartRange
    note: str = ""
    records: int = 0


@dataclass(frozen=True)
class Blocks:
    """Contiguous blocks of a run, and the offset of the first one in its file."""

    run: str
    numbers: range
    start: int


@dataclass(frozen=True)
class Range:
    """The records with `low <= key < high` of some runs (None: no bound), and the target file."""

    sources: tuple[Blocks, ...]
    low: Key | None
    high: Key | None
    target: str
    columns: tuple[str, ...]
    frame: Frame | None


def merge(
    spark: SparkSession,
    part_store: PartStore,
    run_groups: Sequence[Sequence[PartRange]],
    columns: Sequence[str],
    folder: str,
    most: int,
    tuning: Tuning,
    frame: Frame | None = None,
) -> list[list[SortedPart]]:
    """Merge each group of runs into ordered parts. A single run is already such a part, unless text separates records.

    Args:
        spark: runs the tasks.
        part_store: the store of runs and parts.
        run_groups: groups of runs; each group is merged by itself.
        columns: the columns of the new parts' indexes besides the sizes.
        folder: the folder of the parts in the depot.
        most: the bytes of a range. A task needs about four times as much memory.
        tuning: the least bytes of a range, and the bytes that the driver merges itself.
        frame: provides the text between the records.

    Raises:
        OSError: a run differs from what was written, or a part cannot be written.
        Unfit: a record cannot be written.
    """
    most, enough = max(most, tuning.merge_range_bytes), 0 if frame else 1
    groups = [
        _ranges(part_store, runs, columns, folder, most, frame) if len(runs) > enough else [] for runs in run_groups
    ]
    wanted = [each for group in groups for each in group]
    if wanted and sum(run.size for runs in run_groups for run in runs) <= min(tuning.driver_output_bytes, most):
        written = [_write(part_store, each) for each in wanted]
    else:
        written = spread.parallel_map(
            spark, partial(_write, part_store), wanted, reraised=(OSError, format.UnwritableFile)
        )
    merged = iter(written)
    found = []
    for runs, group in zip(run_groups, groups, strict=True):
        parts = [next(merged) for _ in group] if group else [SortedPart(run, records=run.size) for run in runs]
        if sum(part.records for part in parts) != sum(run.size for run in runs):
            raise OSError(errno.EIO, "the merged runs have not the bytes of the runs; run again", folder)
        found.append([part for part in parts if part.part_range.size or part.note])
    return found


def _ranges(
    part_store: PartStore,
    runs: Sequence[PartRange],
    columns: Sequence[str],
    folder: str,
    size: int,
    frame: Frame | None,
) -> list[Range]:
    """Ranges of about `size` bytes."""
    known = [_Run.of(part_store, run) for run in runs]
    bounds = sorted_runs.splitters((pair for run in known for pair in run.weights), size)
    edges = [None, *bounds, None]
    return [
        Range(
            tuple(found for run in known if (found := run.between(low, high)).numbers),
            low,
            high,
            os.path.join(folder, f"merged-{uuid.uuid4().hex}.part"),
            tuple(columns),
            frame,
        )
        for low, high in itertools.pairwise(edges)
    ]


@dataclass(frozen=True)
class _Run:
    """The blocks of a sorted run: the first key of each, its bytes, and the bytes of its index."""

    path: str
    firsts: list[Key]
    sizes: list[int]
    index_sizes: list[int]

    @property
    def weights(self) -> Iterator[tuple[Key, int]]:
        """The bytes of each block that a task must hold, by the block's first key."""
        for first, size, index_size in zip(self.firsts, self.sizes, self.index_sizes, strict=True):
            yield first, size + index_size

    @classmethod
    def of(cls, part_store: PartStore, run: PartRange) -> _Run:
        """Read the blocks of a run from its index."""
        destination.check(part_store, run)
        with records.index(part_store.arrow, run.path) as file:
            blocks = [file.get_batch(number) for number in range(file.num_record_batches)]
        sizes = [pc.sum(block.column(records.SIZE)).as_py() for block in blocks]
        if sum(sizes) != run.size:
            text = f"tells of {sum(sizes)} bytes, but {run.size} were written; run again"
            raise OSError(errno.EIO, text, run.path + records.SUFFIX)
        firsts = [sorted_runs.key_at(block, _BY, 0) for block in blocks]
        return cls(run.path, firsts, sizes, [block.nbytes for block in blocks])

    def between(self, low: Key | None, high: Key | None) -> Blocks:
        """The blocks that may have keys of a range."""
        numbers = sorted_runs.between(self.firsts, low, high)
        return Blocks(self.path, numbers, sum(self.sizes[: numbers.start]))


def _write(part_store: PartStore, wanted: Range) -> SortedPart:
    """Write a range. Returns the part, whose path is a new one if a task is tried again."""
    taken = 0
    found = [each for blocks in wanted.sources for each in _read(part_store, blocks, wanted.low, wanted.high)]
    path = f"{wanted.target}.{uuid.uuid4().hex}"
    file: records.IndexedFile | records.FramedFile
    if wanted.frame:
        file = records.FramedFile(part_store.create, path, wanted.frame)
    else:
        file = records.IndexedFile(part_store.create, path, wanted.columns)
    with durable.about(path), closing(file):
        if found:
            names = list(found[0][1])
            columns = {name: pa.concat_arrays([known.pop(name) for _, known in found]) for name in names}
            texts = pa.concat_arrays([texts for texts, _ in found])
            taken = pc.sum(pc.binary_length(texts)).as_py()
            records.write_sorted(file, texts, columns)
        return SortedPart(destination.whole(path, file.tell()), getattr(file, "note", ""), taken)


def _read(
    part_store: PartStore, blocks: Blocks, low: Key | None, high: Key | None
) -> Iterator[tuple[pa.Array, dict[str, pa.Array]]]:
    """A run's records in a range with their columns of the index, block by block."""
    at = blocks.start
    with part_store.open(blocks.run) as data, records.index(part_store.arrow, blocks.run) as file:
        for number in blocks.numbers:
            block = file.get_batch(number)
            ends = at + np.concatenate([[0], np.cumsum(block.column(records.SIZE).to_numpy())])
            at = int(ends[-1])
            first = 0 if low is None else sorted_runs.rows_before(block, _BY, low, "left")
            last = block.num_rows if high is None else sorted_runs.rows_before(block, _BY, high, "left")
            if first < last:
                data.seek(int(ends[first]))
                with durable.about(blocks.run):
                    texts = data.read(int(ends[last] - ends[first]))
                if len(texts) < ends[last] - ends[first]:
                    raise OSError(errno.EIO, "is shorter than what was written to it; run again", blocks.run)
                found = sorting.binary(ends[first : last + 1] - ends[first], texts)
                known = block.slice(first, last - first)
                yield found, {name: known.column(name) for name in known.schema.names if name != records.SIZE}
