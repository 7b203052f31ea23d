"""The exchanges of a task: rows, messages and counts for later stages, and messages from earlier ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.execute import report
from spark_jobs.execute.tasks.shuffle_buffer import ShuffleBuffer
from spark_jobs.execute.tasks.shuffle_records import MESSAGE
from spark_jobs.nodes.records import ledger
from spark_jobs.nodes.source import record_origin as origins

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from spark_jobs.execute.tasks.spec import JobSpec
    from spark_jobs.execute.tasks.spill import TaskSpill
    from spark_jobs.nodes import memory
    from spark_jobs.nodes.records import batches


class TaskExchanges:
    """Sends the records of a task to later stages.

    Args:
        spec: the job.
        stage: the task's stage.
        memory_pool: reserves the memory of the buffers.
        spill: gives the file that buffers spill to.
    """

    def __init__(
        self, spec: JobSpec, stage: int, memory_pool: memory.MemoryPool, spill: Callable[[], TaskSpill]
    ) -> None:
        self._spec = spec
        #: The shuffle records that this task makes.
        self.buffer = ShuffleBuffer(spec.job, stage, memory_pool, spill)
        #: The shuffle records for later stages that only pass through this task.
        self.passing = ShuffleBuffer(spec.job, stage, memory_pool, spill)
        #: The bytes of the rows that operators have sent.
        self.payload_bytes = 0
        #: The counts of nodes from earlier stages and earlier jobs.
        self._counted = {name: replace(counters) for name, counters in spec.counted.items()}

    def send(self, exchange: int, partition: int, ordinal: int, table: pa.Table) -> None:
        """Give rows to an exchange."""
        self.payload_bytes += self.buffer.send(exchange, partition, ordinal, table)

    def broadcast(self, exchange: int, message: bytes, ordinal: int = MESSAGE) -> None:
        """Give a message to all partitions of an exchange."""
        for partition in range(self._spec.job.exchanges[exchange].partitions):
            self.buffer.add(exchange, partition, ordinal, message)

    def record_origin(self, number: int) -> batches.Origin:
        """The origin of records that an exchange brought to a partition."""
        assert self._spec.places is not None, "only exchanges bring records whose split is another task's"
        return origins.RecordOrigin(number, self._spec.places)

    def counted(self) -> Mapping[str, ledger.Counters]:
        """The counts of nodes at all earlier stages, as far as an aggregate of this stage needs them."""
        return self._counted

    def add_counters(self, payload: bytes) -> None:
        """Add the counters that a task of an earlier stage sent."""
        for name, counters in report.decode_counters(payload).items():
            self._counted.setdefault(name, ledger.Counters()).add(counters)
