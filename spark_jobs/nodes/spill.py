"""Rows that a task holds until all have come: in memory while they fit its share, in runs on local disk beyond that.

`Ordered` gives rows back by their places, `Keyed` by their keys. Both hold at most a part of the task's share of
`memory.limit` (decision 41), because working on what is held needs as much again; what was spilled comes back a piece
at a time. A key whose rows do not fit even alone is E310.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import ordering, partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Of a task's share, what an operator holds before it spills: concatenating and grouping take the rest for a while.
_HELD = 3
#: However large the share is: Arrow counts the bytes of a text column in 31 bits.
_MOST_HELD = 1 << 30
#: Spilled rows are split by key into this many pieces, each again where it does not fit.
FAN_OUT = 16
_MOST_SPLITS = 6
#: Sorted runs that are merged at once, a block of each in memory.
MOST_RUNS = 32


class Spilled(Protocol):
    """Rows on disk."""

    def read(self) -> pa.Table:
        """The rows."""


class Room(Protocol):
    """What a task lets its operators hold, and where the rest goes."""

    #: Bytes of Arrow data that the task may hold.
    share: int

    def spill(self, node: str, table: pa.Table) -> Spilled:
        """Write rows down for this task. Raises `Exhausted`."""


class Exhausted(Exception):
    """There is no room left: in memory (E310), under the cap (E320), or on the volume (E321, E900).

    Args:
        code: which.
        message: what, where, and how to mend it.
        node: whose rows they are.
    """

    def __init__(self, code: str, message: str, node: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.node = node


def held_bytes(room: Room) -> int:
    """How many bytes of rows an operator holds before it does something about it."""
    return min(room.share // _HELD, _MOST_HELD)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


class Ordered:
    """Rows that come back in the order of their places."""

    def __init__(self, room: Room, node: str) -> None:
        self._room = room
        self._node = node
        self._limit = held_bytes(room)
        self._held: list[pa.Table] = []
        self._bytes = 0
        #: Sorted runs by how often their rows were merged: as many of a level as can be make one of the next.
        self._levels: list[list[list[Spilled]]] = []

    def add(self, table: pa.Table) -> None:
        """Rows in any order."""
        self._held.append(table)
        self._bytes += table.nbytes
        if self._bytes > self._limit:
            self._add_run(self._spill([self._sorted()]), 0)

    def tables(self) -> Iterator[pa.Table]:
        """The rows, in tables one after another; can be asked for once."""
        if not self._levels:
            if self._held:
                yield self._sorted()
            return
        if self._held:
            self._add_run(self._spill([self._sorted()]), 0)
        yield from _merged([run for level in reversed(self._levels) for run in level])

    def _add_run(self, run: list[Spilled], level: int) -> None:
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) == MOST_RUNS:
            self._levels[level] = []
            self._add_run(self._spill(_merged(runs)), level + 1)

    def _sorted(self) -> pa.Table:
        table = _joined(self._held)
        self._held, self._bytes = [], 0
        return table.take(pc.sort_indices(table.column(ordering.AT)))

    def _spill(self, tables: Iterable[pa.Table]) -> list[Spilled]:
        """A sorted run, in blocks small enough for one of each run to be held."""
        block = max(self._limit // MOST_RUNS, 1)
        return [self._room.spill(self._node, piece) for table in tables for piece in pieces(table, block)]


def _merged(runs: Sequence[Sequence[Spilled]]) -> Iterator[pa.Table]:
    """What all runs have up to the smallest last place of their current blocks is complete: that goes on."""
    rest = [iter(run) for run in runs]
    current = [next(run).read() for run in rest]
    while current:
        bound = min(_last(table) for table in current)
        ready = []
        for i, table in enumerate(current):
            # Rows of one place may go on in the next block: earlier runs come first with all they have.
            while _last(table) == bound and (block := next(rest[i], None)) is not None:
                table = pa.concat_tables([table, block.read()], promote_options="default").combine_chunks()
            count = int(np.searchsorted(table.column(ordering.AT).to_numpy(), bound, side="right"))
            ready.append(table.slice(0, count))
            current[i] = table.slice(count)
        going_on = [i for i, table in enumerate(current) if table.num_rows]
        current, rest = [current[i] for i in going_on], [rest[i] for i in going_on]
        joined = _joined(ready)
        yield joined.take(pc.sort_indices(joined.column(ordering.AT)))


def _last(table: pa.Table) -> int:
    """The last place of sorted rows."""
    last: int = table.column(ordering.AT)[-1].as_py()
    return last


class Keyed:
    """Rows that come back so that all of a key are in one piece.

    Args:
        room: the task.
        node: whose rows they are.
        keys: the names of the key columns; none is a single key.
        merge: what is to be done with rows of equal keys, as soon as they meet: gets tables in the order they were
            added, gives one with a row per key, and may be asked again about its own results.
    """

    def __init__(
        self,
        room: Room,
        node: str,
        keys: Sequence[str],
        merge: Callable[[Sequence[pa.Table]], pa.Table],
        *,
        splits: int = 0,
    ) -> None:
        self._room = room
        self._node = node
        self._keys = keys
        self._merge = merge
        self._splits = splits
        self._limit = self._full = held_bytes(room)
        self._held: list[pa.Table] = []
        self._bytes = 0
        self._pieces: dict[int, list[Spilled]] = {}

    def add(self, table: pa.Table) -> None:
        """Rows in any order; those of one key keep the order they come in."""
        self._held.append(table)
        self._bytes += table.nbytes
        if self._bytes > self._full:
            merged = self._take()
            if merged.nbytes > self._limit // 2:
                self._spill(merged)
            else:
                self._held, self._bytes = [merged], merged.nbytes

    def tables(self) -> Iterator[pa.Table]:
        """Merged rows: each key in one row of one table; can be asked for once."""
        if not self._pieces:
            if self._held:
                yield self._take()
            return
        if self._held:
            self._spill(self._take())
        for number in sorted(self._pieces):
            inner = Keyed(self._room, self._node, self._keys, self._merge, splits=self._splits + 1)
            for block in self._pieces.pop(number):
                inner.add(block.read())
            yield from inner.tables()

    def _take(self) -> pa.Table:
        held, self._held, self._bytes = self._held, [], 0
        return self._merge(held)

    def _spill(self, table: pa.Table) -> None:
        splits = len(self._keys) > 0 and self._splits < _MOST_SPLITS
        if not self._pieces and not (splits and table.num_rows > 1):
            self._keep_or_fail(table)
            return
        keys = [table.column(name).combine_chunks() for name in self._keys]
        numbers = partition.numbers(keys, FAN_OUT, salt=self._splits + 1)
        for number, part in partition.cut(table, numbers):
            blocks = self._pieces.setdefault(number, [])
            blocks += [self._room.spill(self._node, piece) for piece in pieces(part, self._limit)]

    def _keep_or_fail(self, table: pa.Table) -> None:
        """Rows that splitting does not make fewer: they may fill the share, not more."""
        if table.nbytes > self._room.share:
            raise Exhausted(
                "E310",
                f"the rows of one key need {table.nbytes} bytes, memory.limit leaves {self._room.share} to each task; "
                "raise memory.limit, use fewer threads, or keep less per key",
                self._node,
            )
        self._held, self._bytes = [table], table.nbytes
        self._full = table.nbytes + self._limit


def pieces(table: pa.Table, size: int) -> Iterator[pa.Table]:
    """A table in slices of about `size` bytes."""
    rows = max(1, int(table.num_rows * size / max(table.nbytes, 1)))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)
