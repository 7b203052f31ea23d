"""A combine whose first build side is too large for every task: both sides are partitioned by key.

`Spread` is the end of the driver's region: it computes keys and sends the records to the partition of their key.
`Probe` has one partition of the build side, which the job before wrote down in partitions, and sends the results home.
With several build sides the others are read whole by each task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import meeting, memory, operator
from spark_jobs.nodes.combine import build
from spark_jobs.nodes.combine.run import Combine
from spark_jobs.nodes.records import order

if TYPE_CHECKING:
    from spark_jobs.nodes.combine.step import CombineStep


@dataclass
class Spread(meeting.Departure, Combine):
    """Sends driver records to the partitions of their keys."""

    step: CombineStep

    @property
    def key_columns(self) -> list[str]:
        """The driver's side of the first build side's keys."""
        return build.key_names(self.step, self.step.builds[0])

    def process(self, batch: operator.Batch, port: int) -> None:
        """Compute the keys; what has no usable key goes to the dead letters."""
        kept, columns = self.keyed(self.step.builds[0], self.take(batch))
        self.depart(kept, dict(zip(self.key_columns, columns, strict=True)))


@dataclass
class Probe(meeting.Meeting, Combine):
    """Looks the driver records of a partition up in the build records of the same."""

    step: CombineStep

    def open(self) -> None:
        """Compile the residual and the body."""
        super().open()
        self.origin = self.context.record_origin(self.number_of_partition)
        self.received: list[pa.Table] = []
        self.received_bytes = 0
        self.arrived = self.joined = 0

    def receive(self, table: pa.Table) -> None:
        """Driver records from one task, in record order."""
        self.enter(table.num_rows)
        self.received.append(table)
        self.received_bytes += table.nbytes
        self.arrived += table.num_rows
        enough = memory.step_bytes(self.context.account.share)
        if self.arrived - self.joined >= operator.BATCH_ROWS or self.received_bytes >= enough:
            self._join_received()

    def _join_received(self) -> None:
        """Small tables of many tasks as one batch."""
        data = operator.gather(pa.concat_tables(self.received, promote_options="default"))
        self.received, self.received_bytes = [], 0
        rows = pa.array(np.arange(self.joined, self.arrived))
        self.joined = self.arrived
        self.gather(operator.Batch(data, rows, self.origin, at=data.column(order.AT)))

    def finish(self) -> None:
        """Look up the rest."""
        if self.received:
            self._join_received()
        super().finish()

    def build_side(self, qualifier: str) -> pa.Table:
        """The first build side has partitions."""
        number = self.number_of_partition if qualifier == self.step.builds[0] else None
        return self.context.materialized(self.step.build(qualifier), number)

    def keyed(self, qualifier: str, batch: operator.Batch) -> tuple[operator.Batch, list[pa.Array]]:
        """The keys came with the records."""
        names = build.key_names(self.step, qualifier)
        columns = [batch.data.column(name) for name in names]
        data = batch.data.drop_columns(names)
        return replace(batch, data=data), columns

    def give(self, batch: operator.Batch) -> None:
        """Results go home."""
        self.send_home(pa.table(batch.data))
