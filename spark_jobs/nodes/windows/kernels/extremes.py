"""`min` and `max`: nulls are ignored, NaN is larger than every number, and the first of equal values wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.formats.typed import record_sizes
from spark_jobs.nodes.windows import codes
from spark_jobs.nodes.windows.kernels.function import Arguments, FailingFrames, Function, Results, largest_so_far

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.rows import SortedBatch

#: Two codes up to this one can be added.
_MOST = 1 << 62


class Max(Function):
    """Finds the winning row so far, by codes in the order of the values."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._failing = FailingFrames()
        #: The winner of the partition that continues.
        self._carried: pa.Array | None = None

    def widths(self, batch: SortedBatch, sizes: np.ndarray, offsets: Arguments | None) -> np.ndarray:
        """An upper bound: the winner is no larger than the largest value so far."""
        carried = 0 if self._carried is None else int(record_sizes.of([self._carried], 1)[0])
        return largest_so_far(batch, sizes, carried)

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        """The winners. The winner of earlier batches counts as a row before the first."""
        values = given.values.slice(0, batch.count)
        carried = 0
        wide = batch
        if batch.head and self._carried is not None:
            carried = 1
            values = pa.concat_arrays([self._carried, values])
            wide = batch.with_rows_before(1)
        found = self._winners(wide, values).slice(carried)
        self._carried = found.slice(batch.count - 1)
        return Results(found, self._failing.of(batch, given))

    def _winners(self, batch: SortedBatch, values: pa.Array) -> pa.Array:
        ranked = codes.of_values(values, self.call.argument_type)
        if (int(batch.partitions[-1]) + 1) * ranked.size > _MOST:
            ranked = ranked.dense()
        numbers = self.ranks(ranked)
        # Each partition's codes are above all codes of earlier partitions, so that one running maximum serves them all.
        floor = batch.partitions * ranked.size
        best = np.maximum.accumulate(floor + numbers)
        won = np.concatenate([[True], best[1:] > best[:-1]])
        rows = np.maximum.accumulate(np.where(won, batch.places, 0))
        return values.take(pa.array(rows, mask=best == floor))

    def ranks(self, ranked: codes.Codes) -> np.ndarray:
        """A number for each value, larger for values that win; 0 for null."""
        return ranked.numbers


class Min(Max):
    """`min`: the smallest value wins."""

    def ranks(self, ranked: codes.Codes) -> np.ndarray:
        return np.where(ranked.numbers > 0, ranked.size - ranked.numbers, 0)
