"""What a task sends: payloads that wait for its end, in memory while they are small, then on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.execute import envelopes
from spark_jobs.nodes import spill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.execute.spill import Block, Space
    from spark_jobs.plan import regions

#: Bytes of a payload before it is compressed; some megabytes are what Spark moves best.
PAYLOAD_BYTES = 8 << 20
#: How many payloads a task sends at most, as a number of bits.
_SEQUENCE_BITS = 24
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


class Outbox:
    """Envelopes of one task.

    Args:
        job: whose exchanges they go to.
        level: the level of the task.
        limit: bytes of payloads that are held in memory.
        space: where the others go.
    """

    def __init__(self, job: regions.Job, level: int, limit: int, space: Callable[[], Space]) -> None:
        self._job = job
        self._level = level
        self._limit = limit
        self._space = space
        #: What waits: slot, exchange, partition, ordinal, payload or where it is.
        self._waiting: list[tuple[int, int, int, int, bytes | Block]] = []
        self._held = 0
        self._sent = 0
        self._nodes = {exchange.id: job.boxes[exchange.consumer].step.name for exchange in job.exchanges}

    def send(self, exchange: int, partition: int, ordinal: int, table: pa.Table) -> int:
        """Rows for a partition of an exchange; tables with one ordinal keep their order. Gives the payloads' bytes."""
        total = 0
        for piece in spill.pieces(table, PAYLOAD_BYTES):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema, options=_LZ4) as stream:
                stream.write_table(piece)
            payload = sink.getvalue().to_pybytes()
            total += len(payload)
            self.add(exchange, partition, ordinal << _SEQUENCE_BITS | self._sent, payload)
            self._sent += 1
        return total

    def add(self, exchange: int, partition: int, ordinal: int, payload: bytes) -> None:
        """A payload on its way to its exchange, or another task's report on its way to the driver."""
        kept: bytes | Block = payload
        if exchange in self._nodes and self._held + len(payload) > self._limit:
            kept = self._space().put(self._nodes[exchange], payload)
        else:
            self._held += len(payload)
        slot = envelopes.slot(self._job, self._level + 1, exchange, partition)
        self._waiting.append((slot, exchange, partition, ordinal, kept))

    def clear(self) -> None:
        """Send nothing."""
        self._waiting.clear()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What Spark gets, a few envelopes at a time."""
        few = envelopes.BATCH
        for start in range(0, len(self._waiting), few):
            rows = self._waiting[start : start + few]
            yield envelopes.batch([(*r[:4], r[4] if isinstance(r[4], bytes) else r[4].bytes()) for r in rows])
        self._waiting.clear()
