"""The payloads that a task sends at its end: held in memory while they are small, then on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.execute.tasks import block_codec, shuffle_records
from spark_jobs.nodes import memory, spill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from spark_jobs.execute.tasks.spill import SpilledBytes, TaskSpill
    from spark_jobs.plan.physical import fragments

#: The maximal number of payloads of a task, in bits.
_SEQUENCE_BITS = 24


class ShuffleBuffer:
    """The shuffle records of one task, held until they are sent.

    Args:
        job: whose exchanges they go to.
        stage: the stage of the task.
        pool: the memory pool of the task.
        space: where payloads go that are too many for it.
    """

    def __init__(self, job: fragments.Job, stage: int, pool: memory.MemoryPool, space: Callable[[], TaskSpill]) -> None:
        self._job = job
        self._stage = stage
        #: Bytes of a payload before it is compressed; some megabytes are what Spark moves best.
        self._payload_bytes = memory.step_bytes(pool.share)
        self._reservation = pool.reserve(self._release)
        self._space = space
        #: The waiting shuffle records: slot, exchange, partition, ordinal, payload or its place on disk.
        self._waiting: list[tuple[int, int, int, int, bytes | SpilledBytes]] = []
        self._on_disk = 0
        self._sent = 0
        self._nodes = {exchange.id: job.ops[exchange.consumer].step.name for exchange in job.exchanges}

    def send(self, exchange: int, partition: int, ordinal: int, table: pa.Table) -> int:
        """Rows for a partition of an exchange; tables with one ordinal keep their order. Gives the payloads' bytes."""
        total = 0
        for piece in spill.slices(table, self._payload_bytes):
            payload = block_codec.encode(piece)
            total += len(payload)
            self.add(exchange, partition, ordinal << _SEQUENCE_BITS | self._sent, payload)
            self._sent += 1
        return total

    def add(self, exchange: int, partition: int, ordinal: int, payload: bytes) -> None:
        """A payload on its way to its exchange, or another task's report on its way to the driver."""
        slot = shuffle_records.slot(self._job, self._stage + 1, exchange, partition)
        self._waiting.append((slot, exchange, partition, ordinal, payload))
        if exchange in self._nodes:
            self._reservation.add(len(payload))

    def _release(self) -> None:
        """Payloads go to disk; reports are small."""
        for i in range(self._on_disk, len(self._waiting)):
            slot, exchange, partition, ordinal, kept = self._waiting[i]
            if exchange in self._nodes and isinstance(kept, bytes):
                block = self._space().put(self._nodes[exchange], kept)
                self._waiting[i] = (slot, exchange, partition, ordinal, block)
        self._on_disk = len(self._waiting)
        self._reservation.set(0)

    def clear(self) -> None:
        """Discard all payloads."""
        self._waiting.clear()
        self._reservation.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches that Spark gets, each with a few shuffle records."""
        rows: list[shuffle_records.ShuffleRecord] = []
        size = 0
        for i, (slot, exchange, partition, ordinal, kept) in enumerate(self._waiting):
            payload = kept if isinstance(kept, bytes) else kept.bytes()
            self._waiting[i] = (slot, exchange, partition, ordinal, b"")
            if rows and (len(rows) == shuffle_records.BATCH or size + len(payload) > self._payload_bytes):
                yield shuffle_records.batch(rows)
                rows, size = [], 0
            rows.append((slot, exchange, partition, ordinal, payload))
            size += len(payload)
        if rows:
            yield shuffle_records.batch(rows)
        self.clear()
