"""Origins of the records of one split, or of several small splits that a task reads together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats import cell_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.formats import format
    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.splits import Split
    from spark_jobs.nodes.records import batches
    from spark_jobs.nodes.source.step import SourceStep


@dataclass(frozen=True, slots=True)
class SplitInput:
    """A split to read.

    Args:
        source: the source's number in the plan.
        number: the split's number over all sources.
        file_plan: the plan for reading its file.
        split: the part of the file.
        first_row: the number of records of the file before this split, if known before reading (programs read
            `$source.row`).
        first_of_source: the number of records of the source before this split, if known.
        limit: the maximal number of records to read; None for all (a preview has a limit).
    """

    source: int
    number: int
    file_plan: FilePlan
    split: Split
    first_row: int | None = None
    first_of_source: int | None = None
    limit: int | None = None

    @property
    def bytes(self) -> int:
        """The size of the split in bytes; for compressed files an estimate of the size after decompression."""
        file = self.file_plan.file
        return file.plain_size if file.is_compressed else self.split.end - self.split.start


@dataclass(frozen=True)
class SplitOrigin:
    """The origin of records that were read from a split."""

    place: SplitInput
    step: SourceStep
    block: format.Block
    #: The number of rows of the task's input before the block's split.
    base: int = 0

    @property
    def number(self) -> int:
        """The split's number over all sources."""
        return self.place.number

    def identify(self, batch: batches.Batch, indices: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The source, this split, and the rows."""
        return self.of_rows(batch.rows.take(indices))

    def of_rows(self, rows: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The source, this split, and the rows."""
        count = len(rows)
        source = pa.array(np.full(count, self.place.source, dtype=np.int32))
        return source, pa.array(np.full(count, self.place.number, dtype=np.int32)), rows

    def texts(self, batch: batches.Batch, indices: pa.Array) -> pa.RecordBatch | None:
        """The declared columns of records that were read successfully, as texts."""
        rows = pc.subtract(batch.rows.take(indices), self.base)
        if self.block.rows is None:
            found = pc.subtract(rows, self.block.first_row)
        else:
            found = pc.index_in(rows, value_set=self.block.rows)
        names = [column.name for column in self.step.columns]
        if not set(names) <= set(self.block.batch.schema.names):
            return None
        columns = [
            cell_text.texts(self.block.batch.column(column.name).take(found), column.type)
            for column in self.step.columns
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def source_values(self, batch: batches.Batch) -> dict[str, Any]:
        """The file's values, and the row numbers if they are known."""
        known = self.of_files(batch.rows)
        if self.place.first_row is not None:
            known["source.row"] = self.row_numbers(batch.rows)
        if self.place.first_of_source is not None:
            known["pipeline.total_count"] = pc.add(batch.rows, self.place.first_of_source + 1)
        return known

    def of_files(self, rows: pa.Array) -> dict[str, Any]:
        """The members of `$source` that are the same for all records of the file."""
        file = self.place.file_plan.file
        return {"source.file": file.source_file or file.name, "source.path": file.name, "source.name": self.step.name}

    def row_numbers(self, rows: pa.Array) -> pa.Array:
        """The rows in the file, from 1, of rows of the split; only if they are known."""
        assert self.place.first_row is not None
        return pc.add(rows, self.place.first_row + 1)


@dataclass
class Pack:
    """Splits that a task reads one after another as one input, with rows numbered over all of them.

    Args:
        places: the splits.
        starts: the first row of each split that was begun.
        rows: the number of rows read.
    """

    places: Sequence[SplitInput]
    starts: list[int] = field(default_factory=list)
    rows: int = 0

    def begin(self) -> int:
        """Begin the next split. Returns the number of rows before it."""
        self.starts.append(self.rows)
        return self.rows

    def locate(self, rows: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The split of each row, by index in the pack, and the row within its split."""
        wanted = rows.to_numpy(zero_copy_only=False)
        starts = np.array(self.starts, dtype=np.int64)
        # If several splits begin with the same row, only the last has records.
        found = np.searchsorted(starts, wanted, side="right") - 1
        return found, wanted - starts[found]

    @cached_property
    def numbers(self) -> np.ndarray:
        """The numbers of the splits."""
        return np.array([place.number for place in self.places], dtype=np.int32)

    @cached_property
    def files(self) -> pa.Array:
        """`$source.file` of each split."""
        files = [place.file_plan.file for place in self.places]
        return pa.array([file.source_file or file.name for file in files], pa.string())

    @cached_property
    def paths(self) -> pa.Array:
        """`$source.path` of each split."""
        return pa.array([place.file_plan.file.name for place in self.places], pa.string())

    @cached_property
    def first_rows(self) -> np.ndarray | None:
        """The number of rows of each split's file before it, if known."""
        return _known([place.first_row for place in self.places])

    @cached_property
    def first_of_source(self) -> np.ndarray | None:
        """The number of rows of the source before each split, if known."""
        return _known([place.first_of_source for place in self.places])


def _known(values: Sequence[int | None]) -> np.ndarray | None:
    return None if None in values else np.array(values, dtype=np.int64)


@dataclass(frozen=True)
class PackOrigin(SplitOrigin):
    """The origin of records that were read from the splits of a pack; `place` is its first split."""

    pack: Pack = field(kw_only=True)

    def of_rows(self, rows: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Each row's source and split, and the row there."""
        found, places = self.pack.locate(rows)
        source = pa.array(np.full(len(rows), self.place.source, dtype=np.int32))
        return source, pa.array(self.pack.numbers[found]), pa.array(places)

    def source_values(self, batch: batches.Batch) -> dict[str, Any]:
        """Each record's own file, and the row numbers if they are known."""
        known = self.of_files(batch.rows)
        if self.pack.first_rows is not None:
            known["source.row"] = self.row_numbers(batch.rows)
        if self.pack.first_of_source is not None:
            found, rows = self.pack.locate(batch.rows)
            known["pipeline.total_count"] = pa.array(rows + self.pack.first_of_source[found] + 1)
        return known

    def of_files(self, rows: pa.Array) -> dict[str, Any]:
        """The members of `$source` that depend only on the file, for each row."""
        index = pa.array(self.pack.locate(rows)[0])
        files, paths = self.pack.files.take(index), self.pack.paths.take(index)
        return {"source.file": files, "source.path": paths, "source.name": self.step.name}

    def row_numbers(self, rows: pa.Array) -> pa.Array:
        """The rows in their files, from 1, of rows of the pack; only if they are known."""
        assert self.pack.first_rows is not None
        found, places = self.pack.locate(rows)
        return pa.array(places + self.pack.first_rows[found] + 1)
