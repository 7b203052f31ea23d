"""The interface of window kernels: arguments and results by row, and the failures of a row's frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.rows import SortedBatch


@dataclass(frozen=True)
class Arguments:
    """The argument of a function for each row: values, and packed failures of its evaluation."""

    values: pa.Array
    failures: pa.Array | None = None

    @property
    def failing(self) -> np.ndarray | None:
        """A mask of the rows that failed; None if none did."""
        return None if self.failures is None else self.failures.is_valid().to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class Results:
    """The result of a function for each row: a value or a packed failure."""

    values: pa.Array
    failures: pa.Array | None = None


class Function:
    """A kernel that computes a call on the sorted batches of a stream, one after another."""

    def __init__(self, call: Call) -> None:
        self.call = call

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        """The results for a batch. Its last partition may continue in the next batch."""
        raise NotImplementedError

    def lengths(self, batch: SortedBatch, given: Arguments | None) -> np.ndarray:
        """An upper bound of the array length of each row of a batch. `given` is None if it is not known yet."""
        raise NotImplementedError

    def widths(self, batch: SortedBatch, sizes: np.ndarray, offsets: Arguments | None) -> np.ndarray | None:
        """An upper bound of the bytes of each row's result; None if no value is repeated.

        Args:
            batch: the next batch for `results`.
            sizes: the bytes of each row's value.
            offsets: the distance of the row whose value each row takes, if rows have their own.
        """
        return None

    def ended(self, batch: SortedBatch, given: Arguments, rows: np.ndarray) -> Results:
        """The results for only some rows: the last rows of partitions, whose frame is the whole partition."""
        result, wanted = self.results(batch, given), pa.array(rows)
        failures = None if result.failures is None else result.failures.take(wanted)
        return Results(result.values.take(wanted), failures)


def largest_so_far(batch: SortedBatch, sizes: np.ndarray, carried: int) -> np.ndarray:
    """The largest size in each row's partition up to the row. `carried` is the largest size of earlier batches."""
    known = sizes[: batch.count].copy()
    if batch.head:
        known[0] = max(int(known[0]), carried)
    # Each partition's numbers are above all numbers of earlier partitions, so that one running maximum serves them all.
    floor = batch.partitions * (int(known.max(initial=0)) + 1)
    found: np.ndarray = np.maximum.accumulate(floor + known) - floor
    return found


class FailingFrames:
    """The first failure of each row's frame."""

    def __init__(self) -> None:
        #: The failure carried over in the partition that continues.
        self._carried: str | None = None

    def of(self, batch: SortedBatch, given: Arguments) -> pa.Array | None:
        """Packed failures for each row; None if no row failed."""
        failing = given.failing
        if failing is None or not failing[: batch.count].any():
            if self._carried is None or not batch.head:
                self._carried = None
                return None
            failing = np.zeros(batch.count, dtype=bool)
        first = batch.first_of(failing[: batch.count])
        texts = [None, *(given.failures.to_pylist() if given.failures is not None else ())]
        chosen = first + 1
        if self._carried is not None and batch.head:
            texts.append(self._carried)
            chosen[: batch.head] = len(texts) - 1
        found = pa.array(texts, pa.string()).take(pa.array(chosen))
        self._carried = found[-1].as_py() if batch.count else self._carried
        return found if found.null_count < len(found) else None


def combined_failures(first: pa.Array | None, second: pa.Array | None) -> pa.Array | None:
    """Failures of two kinds. If a row has both, the first kind counts."""
    if first is None or second is None:
        return second if first is None else first
    import pyarrow.compute as pc

    return pc.coalesce(first, second)
