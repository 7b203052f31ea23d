"""Materialized records: written to files with all engine columns, for a later job to read.

The later job starts from ranges of these records, as other jobs start from splits. Either the node itself continues
with them (an interleaved merge takes them in turn), or the node has already emitted them, and `ReadMaterialized` pushes
them to the nodes downstream, which run in several jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

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
    """The buffered records of one merge path, and their file."""

    writer: Any = None
    schema: pa.Schema | None = None
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


@dataclass
class Materialize(operator.Operator):
    """Materializes records for a later job: a file for each merge path, in batches of a useful size.

    Records count as the node's output in the job that reads them.
    """

    provides: Rows | None = None

    def open(self) -> None:
        self.reservation = self.context.memory_pool.reserve(self._write_all)
        self.merge_paths: dict[order.MergePath, _Stored] = {}

    def process(self, batch: batches.Batch, port: int) -> None:
        """Buffer records with their origins."""
        data = batches.with_origin(batch, self.selected(batch, port), self.context.branches)
        stored = self.merge_paths.setdefault(batch.merge_path, _Stored())
        if stored.schema is None or not stored.schema.equals(data.schema):
            self._begin(batch.merge_path, stored, data.schema)
        stored.waiting.append(data)
        stored.rows += data.num_rows
        stored.bytes += data.nbytes
        self.reservation.add(data.nbytes)
        if stored.rows >= batches.BATCH_ROWS or stored.bytes >= memory.step_bytes(self.context.memory_pool.share):
            self._write(stored)

    def selected(self, batch: batches.Batch, port: int) -> pa.RecordBatch:
        """The columns of a batch that are stored: all, unless a subclass overrides this."""
        return batch.data

    def finish(self) -> None:
        self._write_all()

    def _begin(self, name: order.MergePath, stored: _Stored, schema: pa.Schema) -> None:
        """Begin a file. A file has records of one schema; the next file continues its merge path."""
        self._write(stored)
        if stored.writer is not None:
            stored.writer.close()
        assert self.provides is not None
        stored.writer, stored.schema = self.context.files.materialize(self.provides, name, schema), schema

    def _write_all(self) -> None:
        for stored in self.merge_paths.values():
            self._write(stored)

    def _write(self, stored: _Stored) -> None:
        if stored.waiting:
            table = pa.Table.from_batches(stored.waiting)
            stored.waiting, stored.rows, stored.bytes = [], 0, 0
            stored.writer.write_batch(batches.gather(table))
            self.reservation.set(sum(each.bytes for each in self.merge_paths.values()))


@dataclass
class ReadMaterialized(operator.Operator):
    """The root of a fragment that reads records materialized in an earlier job, which has counted them."""

    number_of_partition: int = 0
    reads: tuple[Rows, ...] = ()

    def read(self, start: int, end: int, schedule: IO[bytes] | None) -> None:
        """Push the records `start` to `end`, in order."""
        origin = self.context.exchanges.record_origin(self.number_of_partition)
        done = 0
        (rows,) = self.reads
        for table in self.context.files.materialized_range(rows, start, end):
            data = batches.gather(table)
            whole = batches.Batch(data, pa.array(np.arange(done, done + data.num_rows)), origin)
            done += data.num_rows
            for piece in self.slices(self.given(whole)):
                self.push(piece)
            self.context.pause()

    def given(self, batch: batches.Batch) -> batches.Batch:
        """The batch to push: the stored records, unless a subclass overrides this."""
        return batch


#: The operators that every node may have.
OPERATORS = {shape.Role.MATERIALIZE: Materialize, shape.Role.READ_MATERIALIZED: ReadMaterialized}
