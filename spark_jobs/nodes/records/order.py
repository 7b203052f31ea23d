"""Places in the order of records, comparable over all tasks of a job.

Records have an order that no task sees whole: by **lane**, which is the path through merges that they took (the first
input of a merge comes before the second), then by the **number** of the split that they were read from, or of the home
partition that put them into order, then as their task has them. A place is a number that has this order:

    place = rank << ROW_BITS | position
    rank  = position of the lane * numbers of a lane + number in the lane

Lanes and numbers are counted without gaps (`Arrivals`): lanes multiply, and a place has 63 bits. The position is that
in the stream of records which an operator takes from one lane (`Stream`), whatever batches they come in.

What places are for:

- Records that leave their task take theirs along, in the column `AT`; that of a group is its first record's. A **home**
  partition holds a stretch of all places, so that order needs no global sort (`homes`, `spill.Ordered`). Behind it
  there is one lane, and the number is that of the partition.
- A sorted output has them behind its keys, so that equal records keep their order.
- Dead letters of one record at one node come in the order of its children: that of their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes.records import columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.nodes.records import batches

#: The column of the places of records on their way between tasks.
AT = columns.PLACE.name
#: A place is 63 bits: these for the position in a stream, the others for its rank.
ROW_BITS = 34

_POSITION = (1 << ROW_BITS) - 1

#: A path through merges: the inputs taken, outermost first.
Lane = tuple[int, ...]


@dataclass(frozen=True)
class Arrivals:
    """What the records come from that reach an operator.

    Args:
        lanes: the lanes, in record order.
        numbers: those of the splits and partitions that the records of any lane come from.
    """

    lanes: tuple[Lane, ...] = ((),)
    numbers: range = range(1)

    def rank(self, lane: Lane, number: int) -> int:
        """The high part of the places of a lane's records from a split or partition."""
        return self.lanes.index(lane) * len(self.numbers) + number - self.numbers.start

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.lanes) * len(self.numbers)

    def homes(
        self, places: pa.Array | pa.ChunkedArray, partitions: int, counts: Mapping[int, int] | None = None
    ) -> np.ndarray:
        """The home partition of each place: monotonous in record order, all about as wide.

        Args:
            places: the places.
            partitions: how many home partitions there are.
            counts: how many places each rank has; where that is not known, as many as any other.
        """
        found = places.to_numpy()
        ranks = found >> ROW_BITS
        chosen: np.ndarray
        if not counts:
            chosen = ranks * partitions // self.ranks
            return chosen
        sizes = np.zeros(self.ranks, dtype=np.int64)
        sizes[list(counts)] = list(counts.values())
        ends = np.cumsum(sizes)
        chosen = ((ends - sizes)[ranks] + (found & _POSITION)) * partitions // ends[-1]
        return chosen


#: A single task.
ONE = Arrivals()


class Stream:
    """Numbers the records that an operator takes."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._ranks: dict[tuple[Lane, int], int] = {}
        self._counts: dict[int, int] = {}

    @property
    def counts(self) -> Mapping[int, int]:
        """How many places were given so far, by their rank."""
        return self._counts

    def rank(self, batch: batches.Batch) -> int:
        """That of the places of a batch's records."""
        key = (batch.lane, batch.origin.number)
        if key not in self._ranks:
            self._ranks[key] = self._arrivals.rank(*key)
        return self._ranks[key]

    def places(self, batch: batches.Batch) -> pa.Array:
        """The places of a batch's records, which come next in their lane."""
        rank = self.rank(batch)
        first = self._counts.get(rank, 0)
        self._counts[rank] = first + batch.count
        start = (rank << ROW_BITS) + first
        return pa.array(np.arange(start, start + batch.count))

    def spread(self, batch: batches.Batch, parents: pa.Array) -> tuple[pa.Array, pa.Array]:
        """New places of the records taken last, and those of their children, which stand where the parents do.

        Args:
            batch: the records.
            parents: the row of each child's parent in the batch, ascending.
        """
        rows = parents.to_numpy(zero_copy_only=False)
        sizes = np.bincount(rows, minlength=batch.count)
        if sizes.max(initial=0) < 2:
            return batch.places, batch.places.take(parents)
        sizes = sizes.clip(min=1)
        rank = self.rank(batch)
        end = self._counts[rank]
        self._counts[rank] = end - batch.count + int(sizes.sum())
        starts = (rank << ROW_BITS) + end - batch.count + np.cumsum(sizes) - sizes
        nth = np.arange(len(rows)) - np.searchsorted(rows, rows)
        return pa.array(starts), pa.array(starts[rows] + nth)
