"""Places in the order of records, comparable over all tasks of a job.

No task sees all records, but all records have an order. First comes the **merge path**, which is the sequence of merge
inputs that a record came through (the first input of a merge precedes the second). Then comes the **number** of the
split that the record was read from, or of the range partition that put it into order. Last comes its position in its
task. A place encodes this order as a number:

    place = rank << ROW_BITS | position
    rank  = position of the merge path * number of splits + number of the split

Merge paths and numbers are counted without gaps (`Arrivals`), because paths multiply and a place has 63 bits. The
position counts the records that an operator receives through one merge path (`Stream`), whatever their batches.

Places have three uses:

- Records that leave their task carry their places in the column `AT`; a group carries the place of its first record. A
  **range partition** covers a range of all places, so order needs no global sort (`range_partitions`,
  `spill.ExternalSorter`). Downstream of it there is one merge path, and the partition's number replaces the split's.
- A sorted output compares places after its keys, so that equal records keep their order.
- The dead letters of one record's children at one node are sorted by place.
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

#: The column with the places of records that are sent between tasks.
AT = columns.PLACE.name
#: The bits of a place for the position in a stream. The other bits are for its rank.
ROW_BITS = 34

_POSITION = (1 << ROW_BITS) - 1

#: A path through merges: the inputs taken, outermost first.
MergePath = tuple[int, ...]


@dataclass(frozen=True)
class Arrivals:
    """The merge paths and splits or partitions from which an operator's records come.

    Args:
        merge_paths: the merge paths, in record order.
        numbers: the numbers of the splits or partitions, the same for all merge paths.
    """

    merge_paths: tuple[MergePath, ...] = ((),)
    numbers: range = range(1)

    def rank(self, merge_path: MergePath, number: int) -> int:
        """The high part of the places of records from one split or partition and merge path."""
        return self.merge_paths.index(merge_path) * len(self.numbers) + number - self.numbers.start

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.merge_paths) * len(self.numbers)

    def range_partitions(
        self, places: pa.Array | pa.ChunkedArray, partitions: int, counts: Mapping[int, int] | None = None
    ) -> np.ndarray:
        """The range partition of each place: monotonic in record order, all about equally wide.

        Args:
            places: the places.
            partitions: the number of range partitions.
            counts: the number of places of each rank; if unknown, all ranks count as equal.
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
    """Numbers the records that an operator receives."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._ranks: dict[tuple[MergePath, int], int] = {}
        self._counts: dict[int, int] = {}

    @property
    def counts(self) -> Mapping[int, int]:
        """The number of places given so far, by rank."""
        return self._counts

    def rank(self, batch: batches.Batch) -> int:
        """The rank of the places of a batch's records."""
        key = (batch.merge_path, batch.origin.number)
        if key not in self._ranks:
            self._ranks[key] = self._arrivals.rank(*key)
        return self._ranks[key]

    def places(self, batch: batches.Batch) -> pa.Array:
        """The places of a batch's records, which follow the places assigned before."""
        rank = self.rank(batch)
        first = self._counts.get(rank, 0)
        self._counts[rank] = first + batch.count
        start = (rank << ROW_BITS) + first
        return pa.array(np.arange(start, start + batch.count))

    def child_places(self, batch: batches.Batch, parents: pa.Array) -> tuple[pa.Array, pa.Array]:
        """New places of the records received last, and the places of their children, which replace their parents.

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
