"""Materialized records: written to files with everything that is known of them, for a later job to read.

The later job begins with ranges of these records, as other jobs begin with splits. Either the node itself goes on with
them (an interleaved merge takes them in turn), or the node has emitted them already and `ReadMaterialized` gives them
to the nodes downstream, which run in several jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import memory, operator
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.nodes.records import order
    from spark_jobs.nodes.terms.needs import Rows


@dataclass
class _Stored:
    """What waits of one lane to be written, and its file."""

    writer: Any = None
    schema: pa.Schema | None = None
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


@dataclass
class Materialize(operator.Operator):
    """Writes records down, for the job that goes on with them: a file for each lane, in batches worth reading.

    The node counts the records where they go on.
    """

    tells: Rows | None = None

    def open(self) -> None:
        """Nothing waits yet."""
        self.reservation = self.context.memory_pool.reserve(self._write_all)
        self.lanes: dict[order.Lane, _Stored] = {}

    def process(self, batch: batches.Batch, port: int) -> None:
        """Records wait with the places that they come from."""
        data = batches.with_origin(batch, self.selected(batch, port), self.context.branches)
        lane = self.lanes.setdefault(batch.lane, _Stored())
        if lane.schema is None or not lane.schema.equals(data.schema):
            self._begin(batch.lane, lane, data.schema)
        lane.waiting.append(data)
        lane.rows += data.num_rows
        lane.bytes += data.nbytes
        self.reservation.add(data.nbytes)
        if lane.rows >= batches.BATCH_ROWS or lane.bytes >= memory.step_bytes(self.context.memory_pool.share):
            self._write(lane)

    def selected(self, batch: batches.Batch, port: int) -> pa.RecordBatch:
        """The columns that are kept of some records: all, unless a subclass knows better."""
        return batch.data

    def finish(self) -> None:
        """Write the rest."""
        self._write_all()

    def _begin(self, name: order.Lane, lane: _Stored, schema: pa.Schema) -> None:
        """A file has records of one kind: what comes after it is the next part of its lane."""
        self._write(lane)
        if lane.writer is not None:
            lane.writer.close()
        assert self.tells is not None
        lane.writer, lane.schema = self.context.materialize(self.tells, name, schema), schema

    def _write_all(self) -> None:
        for lane in self.lanes.values():
            self._write(lane)

    def _write(self, lane: _Stored) -> None:
        if lane.waiting:
            table = pa.Table.from_batches(lane.waiting)
            lane.waiting, lane.rows, lane.bytes = [], 0, 0
            lane.writer.write_batch(batches.gather(table))
            self.reservation.set(sum(each.bytes for each in self.lanes.values()))


@dataclass
class ReadMaterialized(operator.Operator):
    """The root of a region that begins with what a node gave in an earlier job, which has counted it."""

    number_of_partition: int = 0
    reads: tuple[Rows, ...] = ()

    def read(self, start: int, end: int, schedule: str | None) -> None:
        """Push the records from `start` to `end`, in their order."""
        origin = self.context.record_origin(self.number_of_partition)
        done = 0
        (rows,) = self.reads
        for table in self.context.materialized_range(rows, start, end):
            data = batches.gather(table)
            whole = batches.Batch(data, pa.array(np.arange(done, done + data.num_rows)), origin)
            done += data.num_rows
            for piece in self.portions(self.given(whole)):
                self.push(piece)
            self.context.pause()

    def given(self, batch: batches.Batch) -> batches.Batch:
        """Records as they go on: as they were kept, unless a subclass knows better."""
        return batch


#: The operators that any node can have.
OPERATORS = {shape.Role.KEEP: Materialize, shape.Role.KEPT: ReadMaterialized}
