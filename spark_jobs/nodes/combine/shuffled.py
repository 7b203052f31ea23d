"""A combine whose first build side is too large for every task: both sides are partitioned by key.

`Spread` is the end of the driver's region: it computes keys and sends the records to the partition of their key.
`Probe` has one partition of the build side, which the job before wrote down in partitions, and sends the results home.
With several build sides the others are read whole by each task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import home, operator, ordering, partition
from spark_jobs.nodes.combine import build
from spark_jobs.nodes.combine.run import Combine

if TYPE_CHECKING:
    from spark_jobs.nodes.combine.step import CombineStep

#: Driver records that a task sends at once.
SPREAD_ROWS = 262_144


@dataclass
class _Lane:
    """What waits of one lane to be sent."""

    place: int
    arrived: int = 0
    waiting: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


@dataclass
class Spread(Combine):
    """Sends driver records to the partitions of their keys."""

    step: CombineStep
    exchange: int = 0
    partitions: int = 1
    lanes: tuple[tuple[int, ...], ...] = ((),)

    def open(self) -> None:
        """Compile the keys."""
        super().open()
        self.found: dict[tuple[int, ...], _Lane] = {}

    def process(self, batch: operator.Batch, port: int) -> None:
        """Add the keys and the place of each record; what has no usable key goes to the dead letters."""
        self.counters.records_in += batch.count
        kept, columns = self.keyed(self.step.builds[0], batch)
        self.counters.made -= kept.count
        lane = self.found.setdefault(kept.lane, _Lane(ordering.place(self.lanes.index(kept.lane), kept.origin.number)))
        at = ordering.first_rows(lane.place, pa.array(np.arange(lane.arrived, lane.arrived + kept.count)))
        added = {build.key_name(i): column for i, column in enumerate(columns)}
        data = operator.overlay(operator.with_origin(kept, kept.data), {**added, ordering.AT: at})
        lane.arrived += kept.count
        lane.waiting.append(pa.table(data))
        lane.rows += kept.count
        lane.bytes += data.nbytes
        if lane.rows >= SPREAD_ROWS or lane.bytes >= self.limit:
            self._send(lane)

    def _send(self, lane: _Lane) -> None:
        table = pa.concat_tables(lane.waiting, promote_options="default")
        lane.waiting, lane.rows, lane.bytes = [], 0, 0
        for number, part in partition.split(table, build.key_names(self.step, self.step.builds[0]), self.partitions):
            self.context.send(self.exchange, number, lane.place, part)

    def finish(self) -> None:
        """Send the rest."""
        for lane in self.found.values():
            if lane.rows:
                self._send(lane)
        self.found.clear()


@dataclass
class Probe(home.Meeting, Combine):
    """Looks the driver records of a partition up in the build records of the same."""

    step: CombineStep

    def open(self) -> None:
        """Compile the residual and the body."""
        super().open()
        self.origin = self.context.record_origin(self.number_of_partition)
        self.received: list[pa.Table] = []
        self.arrived = self.joined = 0

    def receive(self, table: pa.Table) -> None:
        """Driver records from one task, in record order."""
        self.counters.made += table.num_rows
        self.received.append(table)
        self.arrived += table.num_rows
        if self.arrived - self.joined >= operator.BATCH_ROWS:
            self._join_received()

    def _join_received(self) -> None:
        """Small tables of many tasks as one batch."""
        data = operator.gather(pa.concat_tables(self.received, promote_options="default"))
        self.received = []
        rows = pa.array(np.arange(self.joined, self.arrived))
        self.joined = self.arrived
        self.gather(operator.Batch(data, rows, self.origin))

    def finish(self) -> None:
        """Look up the rest."""
        if self.received:
            self._join_received()
        super().finish()

    def build_side(self, qualifier: str) -> pa.Table:
        """The first build side has partitions."""
        number = self.number_of_partition if qualifier == self.step.builds[0] else None
        return self.context.materialized(self.step.build_box(qualifier), number)

    def keyed(self, qualifier: str, batch: operator.Batch) -> tuple[operator.Batch, list[pa.Array]]:
        """The keys came with the records."""
        names = build.key_names(self.step, qualifier)
        columns = [batch.data.column(name) for name in names]
        data = batch.data.drop_columns(names)
        return operator.Batch(data, batch.rows, batch.origin, batch.lane), columns

    def give(self, batch: operator.Batch) -> None:
        """Results go home."""
        self.counters.made -= batch.count
        self.send_home(pa.table(batch.data))


def open_part(step: CombineStep, *, role: str, **wiring: Any) -> operator.Operator:
    """The operator of a part of a combine."""
    if role == "partial":
        return Spread(step, **wiring)
    return home.Home(step, **wiring) if role == "home" else Probe(step, **wiring)
