"""Buffers rows of a task until all have arrived: in memory while they fit its share, then in runs on local disk.

`ExternalSorter` returns rows by their places, `ExternalMap` by their keys. Both reserve their bytes in the task's pool
(`memory.py`), spill on request, and read spilled rows back in blocks. If the rows of a single key do not fit, they
raise E310.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from spark_jobs.nodes import memory, partition, sorted_runs
from spark_jobs.nodes.records import order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Spilled rows are split by key into this many partitions. A partition that does not fit is split again.
FAN_OUT = 16
_MOST_SPLITS = 6
#: The maximal number of sorted runs that are merged at once, with a block of each in memory.
MOST_RUNS = 32


class Spilled(Protocol):
    """Rows of a table on disk."""

    def read(self) -> pa.Table:
        """Read the rows back."""


class SpillContext(Protocol):
    """The memory and the spill folder of a task's operators."""

    #: The memory pool of the task.
    memory_pool: memory.MemoryPool

    def spill(self, node: str, table: pa.Table) -> Spilled:
        """Spill rows of this task. Raises `ResourcesExhausted`."""


class ResourcesExhausted(Exception):
    """There is no space left: in memory (E310), under the cap (E320), or on the volume (E321, E900).

    Args:
        code: one of these codes.
        message: the problem, its place and its remedy.
        node: the node whose rows do not fit.
    """

    def __init__(self, code: str, message: str, node: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.node = node


class Spillable(Protocol):
    """Buffers rows until all have come, and spills them if memory is short."""

    def add(self, table: pa.Table) -> None:
        """Add rows in any order."""

    def tables(self) -> Iterator[pa.Table]:
        """Return all rows. May be called once."""


class ExternalSorter:
    """Sorts rows by their places, or by other columns, and spills sorted runs if memory is short.

    Args:
        room: the memory and spill folder of the task.
        node: the node that owns the rows.
        by: the columns that order them, the most significant one first; numbers or bytes, without nulls.
        keyed: adds these columns to rows that lack them. It is called only for rows that are spilled (see `as_added`).
    """

    def __init__(
        self,
        room: SpillContext,
        node: str,
        by: Sequence[str] = (order.AT,),
        keyed: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        self._room = room
        self._node = node
        self._by = by
        self._keyed = keyed
        self._held: list[pa.Table] = []
        self._reservation = room.memory_pool.reserve(self._spill_held)
        #: Sorted runs by the number of merges of their rows: `MOST_RUNS` runs of a level make one run of the next.
        self._levels: list[list[list[sorted_runs.Block]]] = []

    def add(self, table: pa.Table) -> None:
        self._held.append(table)
        self._reservation.add(table.nbytes)

    def as_added(self) -> list[pa.Table] | None:
        """The rows in the order of `add`, if all of them are in memory, else None. They stay reserved."""
        if self._levels:
            return None
        held, self._held = self._held, []
        return held

    @contextmanager
    def working(self) -> Iterator[None]:
        """Keep the buffered rows from being released inside this context, and free them afterwards."""
        with self._reservation.busy():
            yield
            self._reservation.close()

    def tables(self) -> Iterator[pa.Table]:
        """The sorted rows, as consecutive tables. May be called once."""
        with self._reservation.busy():
            if self._levels:
                if self._held:
                    self._spill_held()
                yield from self._merged([run for level in reversed(self._levels) for run in level])
            elif self._held:
                yield from slices(self._sorted(), memory.step_bytes(self._room.memory_pool.share))
            self._reservation.close()

    def _spill_held(self) -> None:
        self._add_run(self._spill([self._sorted()]), 0)
        self._reservation.set(0)

    def _add_run(self, run: list[sorted_runs.Block], level: int) -> None:
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) == MOST_RUNS:
            self._levels[level] = []
            self._add_run(self._spill(self._merged(runs)), level + 1)

    def _sorted(self) -> pa.Table:
        """Sort the buffered rows one column at a time, so that each unsorted column is freed early."""
        table = pa.concat_tables(self._held, promote_options="permissive")
        self._held = []
        if self._keyed is not None:
            table = self._keyed(table)
        names, columns = table.schema.names, table.columns
        indices = sorted_runs.order(table, self._by)
        del table
        columns.reverse()
        return pa.table({name: _ordered(columns, indices) for name in names})

    def _spill(self, tables: Iterable[pa.Table]) -> list[sorted_runs.Block]:
        """Write a sorted run to disk."""
        return [self._block(piece) for table in tables for piece in slices(table, self._block_bytes)]

    def _block(self, table: pa.Table) -> sorted_runs.Block:
        written = self._room.spill(self._node, table)
        return sorted_runs.Block(sorted_runs.key_at(table, self._by, 0), table.nbytes, written.read)

    def _merged(self, runs: Sequence[Sequence[sorted_runs.Block]]) -> Iterator[pa.Table]:
        return sorted_runs.merged(runs, self._by, self._block_bytes)

    @property
    def _block_bytes(self) -> int:
        """The size of a block: small enough for one block of each run to be in memory."""
        return max(self._room.memory_pool.limit // MOST_RUNS, 1)


def _ordered(columns: list[pa.ChunkedArray], indices: pa.Array) -> pa.Array:
    """Pop the last column, and return it in the given order."""
    return columns.pop().combine_chunks().take(indices)


class ExternalMap:
    """Groups rows by their keys: all rows of a key come back merged, in one table.

    Args:
        room: the memory and spill folder of the task.
        node: the node that owns the rows.
        keys: the names of the key columns; without any, all rows have the same key.
        merge: merges rows of equal keys as soon as possible. It gets tables in the order in which they were added, and
            returns a table with one row per key. It may be called again with its own results.
        row_bytes: the bytes that merging allocates for each row besides copies of the row.
        splits: the number of times that the rows have already been split by key.
    """

    def __init__(
        self,
        room: SpillContext,
        node: str,
        keys: Sequence[str],
        merge: Callable[[Sequence[pa.Table]], pa.Table],
        *,
        row_bytes: int = memory.grouping_bytes(0),
        splits: int = 0,
    ) -> None:
        self._room = room
        self._node = node
        self._keys = keys
        self._merge = merge
        self._row_bytes = row_bytes
        self._splits = splits
        self._held: list[pa.Table] = []
        self._reservation = room.memory_pool.reserve(self._release)
        #: The bytes of rows that merging and splitting cannot reduce.
        self._least = 0
        self._spilled: dict[int, list[Spilled]] = {}

    def add(self, table: pa.Table) -> None:
        """Add rows in any order. Rows of one key keep their order."""
        self._held.append(table)
        self._reservation.add(table.nbytes)

    def tables(self) -> Iterator[pa.Table]:
        """The merged rows: each key is one row of one table. May be called once."""
        with self._reservation.busy():
            if not self._spilled:
                for _, table in self._merged():
                    yield table
            elif self._held:
                for number, table in self._merged():
                    self._spill(number, table)
            self._reservation.close()
        for number in sorted(self._spilled):
            inner = self.deeper()
            for block in self._spilled.pop(number):
                inner.add(block.read())
            yield from inner.tables()

    def deeper(self) -> Spillable:
        """A buffer for a spilled partition of the keys, which splits them further."""
        return ExternalMap(
            self._room, self._node, self._keys, self._merge, row_bytes=self._row_bytes, splits=self._splits + 1
        )

    def _release(self) -> None:
        """Merge the buffered rows, and spill them unless merging has made them much smaller."""
        before = self._reservation.bytes
        if before < 2 * self._least:
            return
        found = list(self._merged())
        held = sum(table.nbytes for _, table in found)
        if not self._can_split(found):
            self._least = checked(self._room, self._node, held)
        elif held > before // 2:
            for number, table in found:
                self._spill(number, table)
            self._reservation.set(0)
            return
        self._held = [table for _, table in found]
        self._reservation.set(held)

    def _merged(self) -> Iterator[tuple[int | None, pa.Table]]:
        """Merge the buffered rows. Pieces have a number if the rows had to be split by key first."""
        held, self._held = self._held, []
        return merged(held, self._keys, self._merge, self._reservation.room, self._row_bytes, salt=self._splits + 1)

    def _can_split(self, found: Sequence[tuple[int | None, pa.Table]]) -> bool:
        if self._spilled:
            return True
        rows = sum(table.num_rows for _, table in found)
        return len(self._keys) > 0 and self._splits < _MOST_SPLITS and rows > 1

    def _spill(self, number: int | None, table: pa.Table) -> None:
        parts = _cut(table, self._keys, self._splits + 1) if number is None else [(number, table)]
        for piece, part in parts:
            blocks = self._spilled.setdefault(piece, [])
            size = memory.step_bytes(self._room.memory_pool.share)
            blocks += [self._room.spill(self._node, block) for block in slices(part, size)]


def checked(room: SpillContext, node: str, held: int) -> int:
    """Check rows that splitting cannot reduce: they may fill a part of the share. Returns their bytes.

    Raises:
        ResourcesExhausted: they do not fit (E310).
    """
    share = room.memory_pool.share
    if held > memory.record_bytes(share):
        raise ResourcesExhausted(
            "E310",
            f"the rows of one key need {held} bytes and as much again to be worked on, memory.limit leaves "
            f"{share} to each task; raise memory.limit, use fewer threads, or keep less per key",
            node,
        )
    return held


def merged(
    tables: list[pa.Table],
    keys: Sequence[str],
    merge: Callable[[Sequence[pa.Table]], pa.Table],
    room: int,
    row_bytes: int,
    salt: int,
) -> Iterator[tuple[int | None, pa.Table]]:
    """Merge rows of equal keys: all at once, or one partition of the keys after another if memory is short.

    Args:
        tables: the rows. The list is emptied, so that tables are freed as soon as possible.
        keys: see `ExternalMap`.
        merge: see `ExternalMap`.
        room: the bytes that merging may allocate.
        row_bytes: see `ExternalMap`.
        salt: the salt for splitting the keys (see `partition.numbers`).

    Yields:
        Tables with a row per key, each with the number of its partition; None if there is only one.
    """
    if not tables:
        return
    needed = sum(2 * table.nbytes + row_bytes * table.num_rows for table in tables)
    if needed <= room or not keys:
        found, tables[:] = merge(tables), []
        yield None, found
        return
    parts: dict[int, list[pa.Table]] = {}
    for table in _taken(tables):
        for number, part in _cut(table, keys, salt):
            parts.setdefault(number, []).append(part)
    for number in sorted(parts):
        yield number, merge(parts.pop(number))


def _taken(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Remove the tables from the list, in order."""
    tables.reverse()
    while tables:
        yield tables.pop()


def _cut(table: pa.Table, keys: Sequence[str], salt: int) -> Iterator[tuple[int, pa.Table]]:
    numbers = partition.numbers([table.column(name) for name in keys], FAN_OUT, salt=salt)
    return partition.cut(table, numbers)


def slices(table: pa.Table, size: int) -> Iterator[pa.Table]:
    """A table in slices of about `size` bytes."""
    rows = max(1, int(table.num_rows * size / max(table.nbytes, 1)))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)
