"""`collect` and `distinct`: the frame's values as an array, nulls passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes.windows import codes
from spark_jobs.nodes.windows.kernels.function import FailingFrames, Function, Given, Results

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.rows import Strip


class Collect(Function):
    """The values so far: each row's array is a stretch of all values, one after another."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._failing = FailingFrames()
        #: The values of the partition that goes on.
        self._carried: pa.Array | None = None

    def lengths(self, strip: Strip, given: Given | None) -> np.ndarray:
        """As many as there are values so far."""
        if given is None:
            known = len(self._carried) if strip.head and self._carried is not None else 0
            return strip.running(np.ones(strip.count, dtype=np.int64), known)
        values = given.values.slice(0, strip.count)
        carried = self._before(strip, values)
        return strip.running(self.taken(strip, values, carried).astype(np.int64), len(carried))

    def results(self, strip: Strip, given: Given) -> Results:
        return self.ended(strip, given, strip.places)

    def ended(self, strip: Strip, given: Given, rows: np.ndarray) -> Results:
        """The arrays of some rows."""
        values = given.values.slice(0, strip.count)
        carried = self._before(strip, values)
        taken = self.taken(strip, values, carried)
        everything = pa.concat_arrays([carried, values.filter(pa.array(taken))])
        counts = strip.running(taken.astype(np.int64), len(carried))
        # How many values stand before those of each row's partition.
        before = np.concatenate([[0], np.cumsum(taken)])[strip.begins] + len(carried)
        before[: strip.head] = 0
        self._carried = everything.slice(int(before[-1]), int(counts[-1]))
        ends = np.concatenate([[0], np.cumsum(counts[rows])])
        stretches = np.arange(ends[-1]) + np.repeat(before[rows] - ends[:-1], counts[rows])
        flat = everything.take(pa.array(stretches))
        failures = self._failing.of(strip, given)
        found = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), flat)
        return Results(found, None if failures is None else failures.take(pa.array(rows)))

    def _before(self, strip: Strip, values: pa.Array) -> pa.Array:
        """The values of earlier strips in the partition that goes on."""
        return self._carried if strip.head and self._carried is not None else values.slice(0, 0)

    def taken(self, strip: Strip, values: pa.Array, carried: pa.Array) -> np.ndarray:
        """The rows whose values are added."""
        return values.is_valid().to_numpy(zero_copy_only=False)


class Distinct(Collect):
    """Each value once, at its first row; 0.0 and -0.0 are one value."""

    def taken(self, strip: Strip, values: pa.Array, carried: pa.Array) -> np.ndarray:
        """The rows that are the first of their partition with their value."""
        wide = strip.behind(len(carried)) if len(carried) else strip
        numbers = codes.of_values(pa.concat_arrays([carried, values]), self.call.argument_type)
        partition = codes.Codes(wide.partitions, int(wide.partitions[-1]) + 1)
        pairs = codes.joined([partition, numbers], wide.count)
        taken = np.zeros(wide.count, dtype=bool)
        taken[np.unique(pairs.numbers, return_index=True)[1]] = True
        found: np.ndarray = (taken & (numbers.numbers > 0))[len(carried) :]
        return found
