"""Functions of a row's position in its partition: numbers, ranks, and values of other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.typed import record_sizes
from spark_jobs.nodes.windows.kernels.function import Arguments, Function, Results

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.rows import SortedBatch


class RowNumber(Function):
    """`row_number`, and `count`: the number of the frame's rows."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._before = 0

    def numbers(self, batch: SortedBatch) -> np.ndarray:
        """The position of each row in its partition, from 1."""
        found: np.ndarray = batch.places - batch.begins + 1
        found[: batch.head] += self._before
        self._before = int(found[-1])
        return found

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        return Results(pa.array(self.numbers(batch)))


class Rank(RowNumber):
    """`rank`: the position of the first row with the same values of the sort fields."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._last = 0

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        """The number of the last row at which the values changed."""
        numbers = self.numbers(batch)
        found = np.maximum.accumulate(np.where(batch.peers[: batch.count], batch.places, -1))
        ranks = np.where(found >= 0, numbers[found], self._last)
        self._last = int(ranks[-1])
        return Results(pa.array(ranks))


class DenseRank(Function):
    """`dense_rank`: the number of distinct values of the sort fields up to the row."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._last = 0

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        ranks = batch.running(batch.peers[: batch.count].astype(np.int64), self._last)
        self._last = int(ranks[-1])
        return Results(pa.array(ranks))


class First(Function):
    """`first`, `first_value`: the value of the partition's first row. It fails if that row failed."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._carried: tuple[pa.Array, pa.Array] | None = None

    def widths(self, batch: SortedBatch, sizes: np.ndarray, offsets: Arguments | None) -> np.ndarray:
        """An upper bound: every row of a partition has the value of its first row."""
        found: np.ndarray = sizes[batch.begins]
        if batch.head and self._carried is not None:
            found[: batch.head] = record_sizes.of([self._carried[0]], 1)[0]
        return found

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        """The value of the first row, for all rows of its partition."""
        failures = pa.nulls(len(given.values), pa.string()) if given.failures is None else given.failures
        columns = [given.values.slice(0, batch.count), failures.slice(0, batch.count)]
        rows = batch.begins
        if batch.head:
            assert self._carried is not None
            columns = [pa.concat_arrays([one, more]) for one, more in zip(self._carried, columns, strict=True)]
            rows = np.where(batch.places < batch.head, 0, rows + 1)
        values, found = (column.take(pa.array(rows)) for column in columns)
        self._carried = values.slice(batch.count - 1), found.slice(batch.count - 1)
        return Results(values, found if found.null_count < len(found) else None)


class Own(Function):
    """`last`, `last_value`: the row's own value, because the frame ends with the row."""

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        failures = None if given.failures is None else given.failures.slice(0, batch.count)
        return Results(given.values.slice(0, batch.count), failures)


class Lag(Function):
    """`lag`: the value of an earlier row, at the same distance for all rows."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        assert isinstance(call.offset, int)
        self._offset = max(call.offset, 0)
        self._carried: pa.Array | None = None

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        """The value of the row at that distance, if there is one."""
        values = given.values.slice(0, batch.count)
        rows = batch.places - self._offset
        there = rows >= batch.begins
        carried = 0
        if batch.head and self._carried is not None:
            carried = len(self._carried)
            values = pa.concat_arrays([self._carried, values])
            rows = rows + carried
            there[: batch.head] = rows[: batch.head] >= 0
        found = values.take(pa.array(rows, mask=~there))
        known = batch.count - batch.last + (carried if batch.head == batch.count else 0)
        self._carried = values.slice(len(values) - min(known, self._offset))
        return Results(found)


class Lead(Function):
    """`lead`: the value of a later row, at the same distance for all rows. The batch includes that row."""

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        """The value of the row at that distance, if there is one."""
        rows = batch.places + self.call.following
        there = rows < _ends(batch.starts)[: batch.count]
        return Results(given.values.take(pa.array(rows, mask=~there)))


def lag_of(call: Call) -> Lag | OffsetByRow:
    """`lag`, with one distance for all rows or one for each record."""
    return Lag(call) if isinstance(call.offset, int) else OffsetByRow(call)


def lead_of(call: Call) -> Lead | OffsetByRow:
    """`lead`, with one distance for all rows or one for each record."""
    return Lead(call) if isinstance(call.offset, int) else OffsetByRow(call)


class OffsetByRow(Function):
    """`lag` and `lead` with a distance for each record. The batch has all rows of a partition."""

    def widths(self, batch: SortedBatch, sizes: np.ndarray, offsets: Arguments | None) -> np.ndarray:
        """An upper bound: all rows may take the same value."""
        assert offsets is not None
        found = self.reached(batch, Arguments(pa.array(sizes)), offsets).values
        return pc.fill_null(found, 0).to_numpy(zero_copy_only=False)

    def reached(self, batch: SortedBatch, given: Arguments, offsets: Arguments) -> Results:
        """The value of the row at each record's distance; below 0 it is the record's own row, null means one row."""
        steps = pc.fill_null(whole_numbers(offsets.values), 1).to_numpy(zero_copy_only=False).clip(0, batch.count)
        rows = batch.places + steps if self.call.function == "lead" else batch.places - steps
        there = (rows >= batch.begins) & (rows < _ends(batch.starts[: batch.count]))
        return Results(given.values.slice(0, batch.count).take(pa.array(rows, mask=~there)), offsets.failures)


def whole_numbers(offsets: pa.Array) -> pa.Array:
    """Whole numbers. Dynamic values of other types count as null."""
    if pa.types.is_integer(offsets.type):
        return offsets
    fits = pc.match_substring_regex(offsets, "^-?[0-9]{1,18}$")
    return pc.cast(pc.if_else(fits, offsets, pa.scalar(None, pa.string())), pa.int64())


def _ends(starts: np.ndarray) -> np.ndarray:
    """For each row the first row after its partition."""
    count = len(starts)
    nexts = np.where(starts, np.arange(count), count)
    following_starts = np.minimum.accumulate(nexts[::-1])[::-1]
    return np.concatenate([following_starts[1:], [count]])
