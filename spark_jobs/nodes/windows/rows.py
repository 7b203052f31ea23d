"""Collects rows into sorted batches: in memory while they fit, then in runs on disk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import memory, packed_sort, sorting, spill
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.records.columns import SORTED
from spark_jobs.nodes.windows import codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.nodes.terms.sort import SortField


@dataclass(frozen=True)
class SortedBatch:
    """Some rows of sorted partitions.

    Args:
        rows: the columns. Rows after the first `count` are only read by functions that look ahead.
        starts: a mask of all rows at which a partition begins.
        peers: a mask of the rows at which the values of the sort fields change, or a partition begins.
        count: the number of rows that get results.
    """

    rows: pa.RecordBatch
    starts: np.ndarray
    peers: np.ndarray
    count: int

    @cached_property
    def places(self) -> np.ndarray:
        """0 … count - 1."""
        return np.arange(self.count)

    @cached_property
    def begins(self) -> np.ndarray:
        """For each row the first row of its partition in the batch."""
        return np.maximum.accumulate(np.where(self.starts[: self.count], self.places, 0))

    @cached_property
    def partitions(self) -> np.ndarray:
        """The number of each row's partition, from 0. A partition continued from the previous batch is number 0."""
        counted = np.cumsum(self.starts[: self.count])
        return counted - (1 if self.count and self.starts[0] else 0)

    @cached_property
    def head(self) -> int:
        """The number of leading rows in the partition with which the previous batch ended."""
        begun = np.flatnonzero(self.starts[: self.count])
        return int(begun[0]) if len(begun) else self.count

    @cached_property
    def last(self) -> int:
        """The first row here of the partition with which the batch ends."""
        return int(self.begins[-1]) if self.count else 0

    def running(self, terms: np.ndarray, carried: int = 0) -> np.ndarray:
        """The sum of whole numbers over each row's partition up to the row. `carried` is the sum of earlier batches."""
        sums = np.concatenate([[0], np.cumsum(terms)])
        found: np.ndarray = sums[1:] - sums[self.begins]
        if carried and self.head:
            found[: self.head] += carried
        return found

    def last_of(self, mask: np.ndarray) -> np.ndarray:
        """For each row, the last row up to it in its partition for which a mask holds; -1 if this batch has none."""
        found = np.maximum.accumulate(np.where(mask, self.places, -1))
        return np.where(found >= self.begins, found, -1)

    def first_of(self, mask: np.ndarray) -> np.ndarray:
        """For each row, the first row up to it in its partition for which a mask holds; -1 if this batch has none."""
        return self.last_of(mask & (self.running(mask.astype(np.int64)) == 1))

    def with_rows_before(self, count: int) -> SortedBatch:
        """The batch, without columns, after `count` rows that belong to the partition with which it continues."""
        begin = np.zeros(count, dtype=bool)
        begin[:1] = True
        return replace(
            self,
            starts=np.concatenate([begin, self.starts]),
            peers=np.concatenate([begin, self.peers]),
            count=count + self.count,
        )

    def part(self, start: int, count: int, following: int) -> SortedBatch:
        """A part of its rows, followed by up to `following` rows to look ahead to."""
        end = start + count + following
        rows = self.rows.slice(start, count + following)
        return SortedBatch(rows, self.starts[start:end], self.peers[start:end], count)


@dataclass(frozen=True)
class Order:
    """The order of rows: partitions in any order, rows of a partition by the fields, then in record order.

    Args:
        keys: comparable columns, with the types of their values.
        fields: the sort fields within a partition.
    """

    keys: tuple[tuple[str, types.Type], ...]
    fields: tuple[SortField, ...]

    def group_codes(self, rows: pa.RecordBatch) -> codes.Codes:
        """A number for the partition of each row."""
        return codes.joined([codes.of_keys(rows.column(name)) for name, _ in self.keys], rows.num_rows)

    def field_codes(self, rows: pa.RecordBatch) -> list[codes.Codes]:
        """Numbers for the values of each field."""
        return [
            codes.of_sort(rows.column(f.name), f.declared_type, descending=f.descending, nulls_first=f.nulls_first)
            for f in self.fields
        ]

    def comparable(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """Sort columns of numbers and bytes by name, starting with the keys."""
        found = [column for name, static in self.keys for column in sorting.columns(rows.column(name), static)]
        for f in self.fields:
            found += sorting.columns(
                rows.column(f.name), f.declared_type, descending=f.descending, nulls_first=f.nulls_first
            )
        return dict(zip((*self.key_names, *self.field_names), found, strict=True))

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the columns for keys."""
        return tuple(SORTED.of(str(i)) for i in range(self._key_width))

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the columns for sort fields."""
        count = sum(sorting.width(f.declared_type) for f in self.fields)
        return tuple(SORTED.of(str(self._key_width + i)) for i in range(count))

    @property
    def _key_width(self) -> int:
        return sum(sorting.width(static) for _, static in self.keys)


@dataclass(frozen=True)
class Sorted:
    """Sorted rows, with masks of the rows at which partitions and values of the fields begin."""

    rows: pa.RecordBatch
    starts: np.ndarray
    peers: np.ndarray

    def slice(self, start: int, count: int | None = None) -> Sorted:
        """The rows from `start`; all of them, or `count`."""
        end = self.rows.num_rows if count is None else start + count
        return Sorted(self.rows.slice(start, end - start), self.starts[start:end], self.peers[start:end])


@dataclass
class Rows:
    """Sorts the rows of some partitions into batches.

    Args:
        room: the memory and spill folder of the task.
        node: the node that owns the rows.
        order: the order of the rows.
        following: the number of rows after a batch that it must include to look ahead.
        whole: a batch must end with a partition.
        strip_rows: the maximal number of rows of a batch, unless `whole` and a longer partition demand more.
    """

    room: spill.SpillContext
    node: str
    order: Order
    following: int
    whole: bool
    strip_rows: int
    _held: spill.ExternalSorter = field(init=False)

    def __post_init__(self) -> None:
        by = (*self.order.key_names, *self.order.field_names, order.AT)
        self._held = spill.ExternalSorter(self.room, self.node, by, self._keyed)

    def add(self, table: pa.Table) -> None:
        """Add rows, which have their places in record order."""
        self._held.add(table)

    def sorted_batches(self) -> Iterator[SortedBatch]:
        """All rows, sorted. May be called once."""
        held = self._held.as_added()
        if held is None:
            yield from self._cut(self._merged())
        elif held:
            with self._held.working():
                yield from self._in_memory(held)

    # ---- in memory -------------------------------------------------------------------------------------------------

    def _in_memory(self, held: list[pa.Table]) -> Iterator[SortedBatch]:
        rows = batches.gather(pa.concat_tables(held, promote_options="default"))
        held.clear()
        groups = self.order.group_codes(rows)
        fields = self.order.field_codes(rows)
        places = rows.column(order.AT).to_numpy()
        arrived = np.arange(rows.num_rows) if np.all(places[1:] > places[:-1]) else packed_sort.order(places)
        chosen = codes.order([groups, *fields], arrived)
        starts = _changes(groups.numbers[chosen])
        peers = starts.copy()
        for field_codes in fields:
            peers |= _changes(field_codes.numbers[chosen])
        del groups, fields, arrived
        start = 0
        size = self._block_rows(rows)
        while start < rows.num_rows:
            end = min(start + size, rows.num_rows)
            if self.whole:
                later = np.flatnonzero(starts[end:])
                end = end + int(later[0]) if len(later) else rows.num_rows
            seen = min(end + self.following, rows.num_rows)
            found = rows.take(pa.array(chosen[start:seen]))
            yield SortedBatch(found, starts[start:seen], peers[start:seen], end - start)
            start = end

    def _block_rows(self, rows: pa.RecordBatch) -> int:
        most = memory.step_bytes(self.room.memory_pool.share)
        return max(1, min(self.strip_rows, rows.num_rows * most // max(rows.nbytes, 1)))

    # ---- on disk ---------------------------------------------------------------------------------------------------

    def _keyed(self, table: pa.Table) -> pa.Table:
        """The rows with the columns of their sort key."""
        rows = batches.gather(table)
        return pa.table(batches.overlay(rows, self.order.comparable(rows)))

    def _merged(self) -> Iterator[Sorted]:
        """Sorted rows, with masks of the changes."""
        last: pa.Table | None = None
        for table in self._held.tables():
            starts = _any_change(table, self.order.key_names, last)
            peers = starts | _any_change(table, self.order.field_names, last)
            compared = [*self.order.key_names, *self.order.field_names]
            last = table.select(compared).slice(table.num_rows - 1)
            yield Sorted(batches.gather(table.drop_columns(compared)), starts, peers)

    def _cut(self, pieces: Iterator[Sorted]) -> Iterator[SortedBatch]:
        """Batches of rows as they are read from disk. Rows that must be in one batch with later rows wait for these."""
        waiting: list[Sorted] = []
        for piece in self._pieces(pieces):
            waiting.append(piece)
            self._check(waiting)
            count = self._complete(waiting)
            if count:
                found = _joined(waiting)
                yield SortedBatch(found.rows, found.starts, found.peers, count)
                waiting = [found.slice(count)]
        found = _joined(waiting)
        if found.rows.num_rows:
            yield SortedBatch(found.rows, found.starts, found.peers, found.rows.num_rows)

    def _pieces(self, pieces: Iterator[Sorted]) -> Iterator[Sorted]:
        for piece in pieces:
            size = self._block_rows(piece.rows)
            for start in range(0, piece.rows.num_rows, size):
                yield piece.slice(start, min(size, piece.rows.num_rows - start))

    def _complete(self, waiting: Sequence[Sorted]) -> int:
        """The number of waiting rows that are complete: rows of whole partitions, or rows followed by enough others."""
        count = sum(each.rows.num_rows for each in waiting)
        begun = np.flatnonzero(waiting[-1].starts)
        last = count - waiting[-1].rows.num_rows + int(begun[-1]) if len(begun) else 0
        return last if self.whole else max(last, count - self.following)

    def _check(self, waiting: Sequence[Sorted]) -> None:
        held = sum(each.rows.nbytes for each in waiting)
        share = self.room.memory_pool.share
        if len(waiting) > 1 and held > memory.record_bytes(share):
            raise spill.ResourcesExhausted(
                "E310",
                f"the rows that a window function has to see at once need {held} bytes and as much again to be worked "
                f"on, memory.limit leaves {share} to each task; raise memory.limit, use fewer threads, or give `lag` "
                "and `lead` a constant offset and predicates a constant to compare with",
                self.node,
            )


def _changes(numbers: np.ndarray) -> np.ndarray:
    """A mask of the positions at which the number changes, including the first."""
    found = np.ones(len(numbers), dtype=bool)
    found[1:] = numbers[1:] != numbers[:-1]
    return found


def _any_change(table: pa.Table, names: Sequence[str], before: pa.Table | None) -> np.ndarray:
    """A mask of the rows at which any of the columns changes, including the first row if none precedes it."""
    found = np.zeros(table.num_rows, dtype=bool)
    found[0] = before is None
    for name in names:
        column = table.column(name)
        found[1:] |= pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy()
        if before is not None:
            found[0] |= column[0] != before.column(name)[0]
    return found


def _one(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.concat_tables([pa.table(batch) for batch in batches], promote_options="default")


def _joined(pieces: Sequence[Sorted]) -> Sorted:
    if len(pieces) == 1:
        return pieces[0]
    rows = batches.gather(_one([piece.rows for piece in pieces]))
    starts, peers = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("starts", "peers"))
    return Sorted(rows, starts, peers)
