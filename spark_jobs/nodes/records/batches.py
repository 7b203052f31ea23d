"""Batches: records in flight, with their origin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from spark_jobs.contract import MERGED
from spark_jobs.cxl import types, values
from spark_jobs.nodes.records import columns
from spark_jobs.nodes.records.columns import IS_GROUP, ORIGIN_NAMES, ROUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_jobs.nodes.records import order

#: Operators split larger inputs into batches of this many records, whose columns stay in the cache.
BATCH_ROWS = 65_536


class Origin(Protocol):
    """Locates a batch's records in their inputs, for dead letters and `$source.*`."""

    @property
    def number(self) -> int:
        """The number of the split or partition, which is part of its rows' places."""

    def identify(self, batch: Batch, indices: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """(source number, split number, 0-based row in the split) of these rows of the batch."""

    def of_rows(self, rows: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The origin of rows of the task's input, for origins that need only the row numbers."""

    def texts(self, batch: Batch, indices: pa.Array) -> pa.RecordBatch | None:
        """The declared columns of these rows' records as they were read; None if they are not in memory."""

    def source_values(self, batch: Batch) -> dict[str, Any]:
        """The `source.*` values for the batch."""


@dataclass
class Batch:
    """A batch of records, with their places and origin.

    `data` has the columns. `rows` has the row of each record in the task's input (a split or a range partition),
    ascending; all children of an `emit each` share a number. `merge_path` is the path through merges: the inputs taken,
    outermost first. `branch` is the branch of the last route, as its number in `Context.branches`; if the records
    differ, they have a column for it. `at` has their places in the stream of the operator that took them (`order.py`).
    """

    data: pa.RecordBatch
    rows: pa.Array
    origin: Origin
    merge_path: order.MergePath = ()
    branch: int = 0
    at: pa.Array | None = None

    @property
    def branches(self) -> pa.Array:
        """The branch of each record's last route, which merges keep."""
        if ROUTE.name in self.data.schema.names:
            return self.data.column(ROUTE.name)
        return pa.repeat(pa.scalar(self.branch, ROUTE.type), self.count)

    @property
    def places(self) -> pa.Array:
        """The records' places, which an operator assigns when it takes them."""
        assert self.at is not None
        return self.at

    @property
    def count(self) -> int:
        """The number of records."""
        return int(self.data.num_rows)

    def take(self, indices: pa.Array) -> Batch:
        """The given records, in the given order."""
        at = None if self.at is None else self.at.take(indices)
        return replace(self, data=self.data.take(indices), rows=self.rows.take(indices), at=at)

    def slice(self, start: int, count: int) -> Batch:
        """A contiguous slice of its records."""
        at = None if self.at is None else self.at.slice(start, count)
        return replace(self, data=self.data.slice(start, count), rows=self.rows.slice(start, count), at=at)

    def slices(self, size: int = BATCH_ROWS) -> Iterable[Batch]:
        """The batch in pieces of at most `size` records."""
        if self.count <= size:
            yield self
            return
        for start in range(0, self.count, size):
            yield self.slice(start, size)


@dataclass(frozen=True)
class GroupOrigin:
    """The origin of groups that an exchange brought: the `$origin.*` columns name their first records."""

    #: The number of the partition, which is part of its rows' places.
    number: int

    def identify(self, batch: Batch, indices: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The first records' source, split and row."""
        source, split, row = (batch.data.column(name).take(indices) for name in ORIGIN_NAMES)
        return source, split, row

    def of_rows(self, rows: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Raises: a row number alone does not identify a group's first record."""
        raise NotImplementedError("records of an exchange carry their origin")

    def texts(self, batch: Batch, indices: pa.Array) -> pa.RecordBatch | None:
        """None: the first records are read again when dead letters are written."""
        return None

    def source_values(self, batch: Batch) -> dict[str, Any]:
        """Null for all: a group has no file or row of its own."""
        return {"source.file": MERGED, "source.name": MERGED, "source.path": MERGED}


def overlay(data: pa.RecordBatch, added: dict[str, pa.Array]) -> pa.RecordBatch:
    """The batch with more columns. Known names keep their place, and new ones follow."""
    if not added:
        return data
    merged = dict(zip(data.schema.names, data.columns, strict=True))
    merged.update(added)
    return pa.RecordBatch.from_arrays(list(merged.values()), names=list(merged))


def repeated(value: Any, count: int) -> pa.Array:
    """A system value as a column of `count` records; a column stays as it is."""
    return value if isinstance(value, pa.Array) else pa.repeat(value, count)


def undeclared(data: pa.RecordBatch, name: str) -> pa.Array:
    """A column that the pipeline does not declare, as dynamic values; null where no file has it."""
    position = data.schema.get_field_index(columns.UNDECLARED.of(name))
    return data.column(position) if position >= 0 else pa.nulls(data.num_rows, pa.string())


def indices_except(count: int, excluded: Sequence[int]) -> pa.Array:
    """The numbers 0 to `count` - 1 without the excluded ones, as int64."""
    keep = np.ones(count, dtype=bool)
    keep[list(excluded)] = False
    return pa.array(np.flatnonzero(keep))


def gather(table: pa.Table) -> pa.RecordBatch:
    """A table's rows as one batch."""
    combined = table.combine_chunks()
    if combined.num_rows == 0:
        return pa.RecordBatch.from_arrays([pa.array([], type=f.type) for f in combined.schema], schema=combined.schema)
    return combined.to_batches(max_chunksize=None)[0]


def value_at(batch: Batch, name: str, row: int, static: types.Type) -> Any:
    """A value of a batch as a Python object."""
    return values.from_arrow(batch.data.column(name).slice(row, 1), static)[0]


def with_origin(batch: Batch, data: pa.RecordBatch, branches: Sequence[str]) -> pa.RecordBatch:
    """The given columns of a batch's records, with their origin columns and the column of their last route's branch.

    Args:
        batch: the records.
        data: the columns.
        branches: the branches of the plan's routes (see `Context`).
    """
    origin = batch.origin.identify(batch, pa.array(np.arange(batch.count)))
    known = dict(zip(ORIGIN_NAMES, origin, strict=True))
    if len(branches) > 1:
        known[ROUTE.name] = batch.branches
    if IS_GROUP.name in batch.data.schema.names:
        known[IS_GROUP.name] = batch.data.column(IS_GROUP.name)
    elif type(batch.origin) is GroupOrigin:
        known[IS_GROUP.name] = pa.array(np.ones(batch.count, dtype=bool))
    return overlay(data, known)
