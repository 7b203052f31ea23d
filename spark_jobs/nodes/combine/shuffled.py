"""A combine whose first build side is too large for every task: both sides are partitioned by key.

`Spread` is the end of the driver's fragment: it computes keys and sends each record to the partition of its key.
`Probe` has one partition of the build side, which an earlier job has partitioned, and emits the results. With several
build sides each task reads the others whole.

A key that very many driver records share would keep one task busy after all others are done. So a task that sends far
more records to one partition than to others spreads these over all partitions as *skewed* records, each with the number
of its own partition. The task that receives a skewed record looks it up in the build records of the partition with that
number, which several tasks then read. The range exchange restores the order of all results. If the build records of
both partitions fit in memory, skewed records are looked up as they come. Otherwise they are buffered until the task is
done with its own partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import memory, shuffle, spill
from spark_jobs.nodes.combine import build
from spark_jobs.nodes.combine.run import Combine
from spark_jobs.nodes.records import batches, columns, order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.combine.step import CombineStep


#: A partition is skewed if it gets this many times its share of the records that are sent at once.
_CROWDED = 1.5
#: The number of the partition that a skewed record belongs to.
_PARTITION = columns.MATCHED.of("partition")


@dataclass
class Spread(shuffle.ShuffleWriter, Combine):
    """Sends driver records to the partitions of their keys."""

    step: CombineStep

    @property
    def key_columns(self) -> list[str]:
        """The driver's side of the first build side's keys."""
        return build.key_names(self.step, self.step.builds[0])

    def process(self, batch: batches.Batch, port: int) -> None:
        """Compute the keys. Records without a usable key become dead letters."""
        kept, columns = self.keyed(self.step.builds[0], self.take(batch))
        self.depart(kept, dict(zip(self.key_columns, columns, strict=True)))

    def finish(self) -> None:
        """Send the remaining records, and broadcast the origins: partitions may outnumber driver records."""
        super().finish()
        self.broadcast_counts()

    def split(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The records of each partition, and skewed records if a partition would get too many."""
        for number, part in super().split(table):
            is_crowded = part.num_rows * self.partitions > _CROWDED * table.num_rows
            if not is_crowded or part.num_rows < self.context.tuning.crowded_rows:
                yield number, part
                continue
            size = -(-part.num_rows // self.partitions)
            owner = pa.repeat(pa.scalar(number, pa.int32()), part.num_rows)
            skewed = part.append_column(_PARTITION, owner)
            for nth, start in enumerate(range(0, part.num_rows, size)):
                target = (number + nth) % self.partitions
                yield target, (skewed if nth else part).slice(start, size)


@dataclass
class Probe(shuffle.ShuffleReader, Combine):
    """Looks the driver records of a partition up in the build records of the same partition."""

    _caches_builds = False

    step: CombineStep

    def open(self) -> None:
        """Compile the residual and the body."""
        super().open()
        self.origin = self.context.exchanges.record_origin(self.number_of_partition)
        self.received: list[pa.Table] = []
        self.received_bytes = 0
        self.arrived = self.joined = 0
        #: The partition whose build records are looked up.
        self.partition = self.number_of_partition
        #: By partition: the probes for its skewed records, and the skewed records that are buffered.
        self.other_probes: dict[int, Probe] = {}
        self.skewed: dict[int, spill.ExternalSorter] = {}

    def receive(self, table: pa.Table) -> None:
        """Driver records from one task, in record order."""
        self.enter(table.num_rows)
        if _PARTITION in table.schema.names:
            number = table.column(_PARTITION)[0].as_py()
            table = table.drop_columns([_PARTITION])
            if self._has_room_for(number):
                self.other_probes[number]._take_in(table)
                return
            self.skewed.setdefault(number, spill.ExternalSorter(self.context, self.step.name)).add(table)
            return
        self._take_in(table)

    def _has_room_for(self, number: int) -> bool:
        """True if skewed records of another partition are looked up as they come."""
        if number not in self.other_probes and number not in self.skewed:
            together = [self._side_bytes(each) for each in (self.number_of_partition, *self.other_probes, number)]
            if sum(together) <= self.context.memory_pool.share // self.context.tuning.skewed_share:
                probe = self.other_probes[number] = replace(self)
                probe.partition = number
                for each in (self, *self.other_probes.values()):
                    each.sharing = 1 + len(self.other_probes)
        return number in self.other_probes

    def _side_bytes(self, number: int) -> int:
        """The memory that the build sides of a partition need, in bytes."""
        sides = {name: self._side(name, number) for name in self.step.builds}
        return sum(self.needed_by(name, table) for name, table in sides.items())

    def _take_in(self, table: pa.Table) -> None:
        self.received.append(table)
        self.received_bytes += table.nbytes
        self.arrived += table.num_rows
        enough = memory.step_bytes(self.context.memory_pool.share)
        if self.arrived - self.joined >= batches.BATCH_ROWS or self.received_bytes >= enough:
            self._join_received()

    def _join_received(self) -> None:
        """Concatenate small tables of many tasks to one batch."""
        data = batches.gather(pa.concat_tables(self.received, promote_options="default"))
        self.received, self.received_bytes = [], 0
        rows = pa.array(np.arange(self.joined, self.arrived))
        self.joined = self.arrived
        self.gather(batches.Batch(data, rows, self.origin, at=data.column(order.AT)))

    def finish(self) -> None:
        """Look up the remaining records, then the skewed ones, partition by partition."""
        self._finish_partition()
        for number in sorted(self.other_probes):
            self.other_probes[number]._finish_partition()
        for number in sorted(self.skewed):
            self.partition = number
            for table in self.skewed.pop(number).tables():
                self._take_in(table)
            self._finish_partition()

    def _finish_partition(self) -> None:
        if self.received:
            self._join_received()
        super().finish()
        self.forget(self.step.builds[0])
        self.large = None

    def build_side(self, qualifier: str) -> pa.Table:
        """The partition's records of the first build side; all records of the others."""
        return self._side(qualifier, self.partition)

    def _side(self, qualifier: str, number: int) -> pa.Table:
        part = number if qualifier == self.step.builds[0] else None
        return self.context.files.materialized(self.step.build(qualifier), part)

    def keyed(self, qualifier: str, batch: batches.Batch) -> tuple[batches.Batch, list[pa.Array]]:
        """The batch, and the keys that were sent along with its records."""
        names = build.key_names(self.step, qualifier)
        columns = [batch.data.column(name) for name in names]
        data = batch.data.drop_columns(names)
        return replace(batch, data=data), columns

    def give(self, batch: batches.Batch) -> None:
        """Send the results to the range exchange."""
        self.send_in_order(pa.table(batch.data))
