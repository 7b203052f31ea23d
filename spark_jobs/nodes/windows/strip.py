"""Sorted rows, some at a time: where partitions and ties begin, and running computations over them.

The rows of a stream come in strips. A partition may begin in one and go on in others: what functions know of its
earlier rows they keep, and a strip says how many of its first rows the partition goes on in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Strip:
    """Some rows of sorted partitions.

    Args:
        rows: the columns; those behind the first `count` rows are only looked at.
        starts: where a partition begins, of all rows.
        peers: where other values of the sort fields begin, or a partition.
        count: how many rows it is about.
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
        """For each row the first row of its partition in the strip."""
        return np.maximum.accumulate(np.where(self.starts[: self.count], self.places, 0))

    @cached_property
    def partitions(self) -> np.ndarray:
        """The number of each row's partition, from 0; that which goes on from another strip is the first."""
        counted = np.cumsum(self.starts[: self.count])
        return counted - (1 if self.count and self.starts[0] else 0)

    @cached_property
    def head(self) -> int:
        """How many of the first rows belong to the partition that the strip before ended with."""
        begun = np.flatnonzero(self.starts[: self.count])
        return int(begun[0]) if len(begun) else self.count

    @cached_property
    def last(self) -> int:
        """The first row here of the partition that the strip ends with."""
        return int(self.begins[-1]) if self.count else 0

    def running(self, terms: np.ndarray, carried: int = 0) -> np.ndarray:
        """The sum of whole numbers over each row's partition up to the row; `carried` is that of earlier strips."""
        sums = np.concatenate([[0], np.cumsum(terms)])
        found: np.ndarray = sums[1:] - sums[self.begins]
        if carried and self.head:
            found[: self.head] += carried
        return found

    def last_of(self, mask: np.ndarray) -> np.ndarray:
        """The last row up to each row and in its partition for which a mask holds; -1 where there is none here."""
        found = np.maximum.accumulate(np.where(mask, self.places, -1))
        return np.where(found >= self.begins, found, -1)

    def first_of(self, mask: np.ndarray) -> np.ndarray:
        """The first such row."""
        return self.last_of(mask & (self.running(mask.astype(np.int64)) == 1))

    def behind(self, count: int) -> Strip:
        """The strip with so many rows before it, that belong to the partition it goes on with; no columns."""
        begin = np.zeros(count, dtype=bool)
        begin[:1] = True
        return replace(
            self,
            starts=np.concatenate([begin, self.starts]),
            peers=np.concatenate([begin, self.peers]),
            count=count + self.count,
        )

    def part(self, start: int, count: int, ahead: int) -> Strip:
        """Some of its rows, with as many behind them to look at as are there, up to a number."""
        end = start + count + ahead
        rows = self.rows.slice(start, count + ahead)
        return Strip(rows, self.starts[start:end], self.peers[start:end], count)
