"""`collect` and `distinct`: the frame's values as an array, without nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes.windows import codes
from spark_jobs.nodes.windows.kernels.function import Arguments, FailingFrames, Function, Results

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.rows import SortedBatch


class Collect(Function):
    """The values so far: each row's array is a slice of the concatenated values."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._failing = FailingFrames()
        #: The values of the partition that continues.
        self._carried: pa.Array | None = None

    def lengths(self, batch: SortedBatch, given: Arguments | None) -> np.ndarray:
        """The number of values so far."""
        if given is None:
            known = len(self._carried) if batch.head and self._carried is not None else 0
            return batch.running(np.ones(batch.count, dtype=np.int64), known)
        values = given.values.slice(0, batch.count)
        carried = self._before(batch, values)
        return batch.running(self.taken(batch, values, carried).astype(np.int64), len(carried))

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        return self.ended(batch, given, batch.places)

    def ended(self, batch: SortedBatch, given: Arguments, rows: np.ndarray) -> Results:
        """The arrays of some rows."""
        values = given.values.slice(0, batch.count)
        carried = self._before(batch, values)
        taken = self.taken(batch, values, carried)
        everything = pa.concat_arrays([carried, values.filter(pa.array(taken))])
        counts = batch.running(taken.astype(np.int64), len(carried))
        # The number of values before the partition of each row.
        before = np.concatenate([[0], np.cumsum(taken)])[batch.begins] + len(carried)
        before[: batch.head] = 0
        self._carried = everything.slice(int(before[-1]), int(counts[-1]))
        ends = np.concatenate([[0], np.cumsum(counts[rows])])
        positions = np.arange(ends[-1]) + np.repeat(before[rows] - ends[:-1], counts[rows])
        flat = everything.take(pa.array(positions))
        failures = self._failing.of(batch, given)
        found = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), flat)
        return Results(found, None if failures is None else failures.take(pa.array(rows)))

    def _before(self, batch: SortedBatch, values: pa.Array) -> pa.Array:
        """The values of earlier batches in the partition that continues."""
        return self._carried if batch.head and self._carried is not None else values.slice(0, 0)

    def taken(self, batch: SortedBatch, values: pa.Array, carried: pa.Array) -> np.ndarray:
        """The rows whose values are added."""
        return values.is_valid().to_numpy(zero_copy_only=False)


class Distinct(Collect):
    """Each value once, at its first row. 0.0 and -0.0 are one value."""

    def taken(self, batch: SortedBatch, values: pa.Array, carried: pa.Array) -> np.ndarray:
        """The first row of each value in its partition."""
        wide = batch.with_rows_before(len(carried)) if len(carried) else batch
        numbers = codes.of_values(pa.concat_arrays([carried, values]), self.call.argument_type)
        partition = codes.Codes(wide.partitions, int(wide.partitions[-1]) + 1)
        pairs = codes.joined([partition, numbers], wide.count)
        taken = np.zeros(wide.count, dtype=bool)
        taken[np.unique(pairs.numbers, return_index=True)[1]] = True
        found: np.ndarray = (taken & (numbers.numbers > 0))[len(carried) :]
        return found
