"""The operator of combines that look records up in whole build sides. Results are in build order.

Driver records are buffered until a lookup pays, and then looked up by key all at once (`index.py`). `joining.py` turns
the matches into results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import spill, worker_cache
from spark_jobs.nodes.combine import build, chunks
from spark_jobs.nodes.combine.index import BuildTable, Compared
from spark_jobs.nodes.combine.joining import Joining, Pairs
from spark_jobs.nodes.combine.step import INDEX_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.nodes.records import batches

#: A build side leaves at least this part of a task's share of memory (one in so many) to the probing records.
_PROBED = 4
#: The part of a task's share (one in so many) for a chunk of a build side that does not fit.
_CHUNK = 3


@dataclass
class Combine(Joining):
    """Probes the build sides with the driver's records."""

    #: Whether all tasks of a job index the same build sides, so that a worker caches the indexes.
    _caches_builds: ClassVar[bool] = True

    def open(self) -> None:
        """Compile the programs. Build sides are opened with the first record, unless the worker has cached them."""
        super().open()
        self.waiting: list[batches.Batch] = []
        self.waiting_rows = 0
        #: The number of this node's operators that buffer records in the task.
        self.sharing = 1
        #: The bytes that each indexed build side needs.
        self.needed: dict[str, int] = {}
        #: The build side, if it is the only one and too large to be indexed at once.
        self.large: pa.Table | None = None
        for qualifier in self.step.builds if self._caches_builds else ():
            if (cached := worker_cache.take(self.step, qualifier)) is not None:
                self.tables[qualifier], self.needed[qualifier] = cached
                self.context.memory_pool.hold(self.needed[qualifier])

    def process(self, batch: batches.Batch, port: int) -> None:
        self.gather(self.take(batch))

    def gather(self, batch: batches.Batch) -> None:
        """Buffer driver records until a lookup pays."""
        self.waiting.append(batch)
        self.waiting_rows += batch.count
        self.reservation.add(batch.data.nbytes)
        room = self.context.memory_pool.limit // self.sharing
        if self.waiting_rows >= self.context.tuning.probe_rows or self.reservation.bytes > room:
            self._probe()

    def finish(self) -> None:
        if self.waiting:
            self._probe()
        if self._caches_builds and self.large is None:
            for qualifier in self.step.builds:
                if qualifier in self.tables:
                    worker_cache.put(self.step, qualifier, (self.tables[qualifier], self.needed[qualifier]))

    def _probe(self) -> None:
        waiting, self.waiting, self.waiting_rows = self.waiting, [], 0
        if self.large is None:
            self._open_sides()
        first = self.step.builds[0]
        prepared = [self.keyed(first, batch) for batch in waiting]
        compared = [self.compared(batch, Pairs(np.arange(batch.count), {}), first) for batch, _ in prepared]
        if self.large is not None:
            starts = np.cumsum([0, *(batch.count for batch, _ in prepared)])
            waits = zip(prepared, compared, starts, strict=False)
            some = [chunks.Waiting(batch, keys, values, int(start)) for (batch, keys), values, start in waits]
            chunks.probe(self, some, self.large)
        else:
            self._look_up(prepared, compared)
        self.reservation.set(0)

    def _look_up(self, prepared: Sequence[tuple[batches.Batch, list[pa.Array]]], values: Sequence[Compared]) -> None:
        """Find the candidates of driver records, given with their side of keys and ranges, and join them."""
        first = self.step.builds[0]
        columns = _together([keys for _, keys in prepared])
        compared = Compared.together(values)
        count = sum(batch.count for batch, _ in prepared)
        found = self.tables[first].find(count, columns, compared)
        done = 0
        for batch, _ in prepared:
            located = found.slice(done, done + batch.count)
            most = self.most_pairs(batch)
            for start, end, chosen, rows in self.tables[first].candidates(located, most):
                part = batch.slice(start, end - start)
                if len(rows) > most and end - start == 1 and len(self.step.builds) == 1:
                    self.join_in_pieces(part, rows, most)
                else:
                    self.join(part, chosen, rows)
            done += batch.count

    def build_side(self, qualifier: str) -> pa.Table:
        """The records of a build side that can match."""
        return self.context.files.materialized(self.step.build(qualifier))

    def _open_sides(self) -> None:
        for qualifier in self.step.builds:
            if qualifier in self.tables:
                continue
            table = self.build_side(qualifier)
            if self.is_large(qualifier, table):
                self.large = table
                return
            self.tables[qualifier] = self.indexed(qualifier, table)

    def is_large(self, qualifier: str, table: pa.Table) -> bool:
        """True if the build side is probed in chunks: it is too large for one index, and the only build side."""
        return len(self.step.builds) == 1 and self.needed_by(qualifier, table) > self.most_needed

    def needed_by(self, qualifier: str, table: pa.Table) -> int:
        """The bytes that records of a build side need while they are looked up."""
        looked_up = len(self.key_programs[qualifier]) + len(self.range_programs[qualifier])
        return table.nbytes + table.num_rows * INDEX_BYTES * looked_up

    @property
    def most_needed(self) -> int:
        """The largest size in bytes that build sides may have while they are looked up."""
        share = self.context.memory_pool.share
        return share - share // _PROBED

    def cut(self, qualifier: str, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """A build side in chunks that leave memory for their matches, each with the number of its first record."""
        room = self.context.memory_pool.share // _CHUNK
        start, size = 0, table.num_rows
        while start < table.num_rows:
            while size > 1 and self.needed_by(qualifier, table.slice(start, size)) > room:
                size = -(-size // 2)
            yield start, table.slice(start, size)
            start += size

    def indexed(self, qualifier: str, table: pa.Table) -> BuildTable:
        """Index records of a build side. They have to fit into the task's memory."""
        needed = self.needed_by(qualifier, table)
        if needed > self.most_needed:
            raise spill.ResourcesExhausted(
                "E310",
                f"the build side '{qualifier}' needs {needed} bytes at once, memory.limit leaves "
                f"{self.context.memory_pool.share} to each task; raise memory.limit, use fewer threads, or let that "
                "input drive",
                self.step.name,
            )
        if not table.num_columns:
            table = build.empty_side(self.step, qualifier)
        self.context.memory_pool.hold(needed)
        self.needed[qualifier] = needed
        return BuildTable.index(
            table,
            build.key_names(self.step, qualifier),
            build.ranges_of(self.step, qualifier),
            build.range_names(self.step, qualifier),
            build.FAILING,
        )

    def forget(self, qualifier: str) -> None:
        """Drop the index of a build side."""
        self.tables.pop(qualifier, None)
        self.context.memory_pool.hold(-self.needed.pop(qualifier, 0))


def _together(rows: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    """Concatenate the columns of several batches."""
    return [pa.chunked_array(column).combine_chunks() for column in zip(*rows, strict=True)]
