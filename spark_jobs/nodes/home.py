"""Records back in their order, after an exchange took them to where equal keys meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import operator, ordering, partition, spill

if TYPE_CHECKING:
    from spark_jobs.nodes import node


@dataclass
class Meeting(operator.Operator):
    """What parts behind a group exchange have in common: they send home, or give on what nobody else has part of.

    Args:
        exchange: the way home; None with a single partition.
        partitions: how many home partitions there are.
        number_of_partition: which partition of the group exchange this is.
        width: how many places the home partitions share.
        incoming_lanes: how many lanes there were before the exchange.
    """

    exchange: int | None = None
    partitions: int = 1
    number_of_partition: int = 0
    width: int = 1
    incoming_lanes: int = 1

    def send_home(self, table: pa.Table) -> None:
        """Rows, with their places, to the partitions that hold these places."""
        assert self.exchange is not None
        homes = ordering.homes(table.column(ordering.AT), self.width, self.incoming_lanes, self.partitions)
        for number, part in partition.cut(table, homes):
            self.context.send(self.exchange, number, self.number_of_partition, part)


@dataclass
class Home(operator.Operator):
    """Puts the records of a stretch of the input back into order."""

    step: node.Step
    number_of_partition: int = 0

    def open(self) -> None:
        """Nothing has come yet."""
        self.records = spill.Ordered(self.context, self.step.name)

    def receive(self, table: pa.Table) -> None:
        """Records from one partition."""
        self.counters.made += table.num_rows
        self.records.add(table)

    def finish(self) -> None:
        """All records of the stretch, in their order."""
        push_all(self, self.records, self.number_of_partition)


def push_all(given: operator.Operator, records: spill.Ordered, partition_number: int) -> None:
    """Give records on in their order, without their places."""
    origin = given.context.record_origin(partition_number)
    done = 0
    for table in records.tables():
        data = operator.gather(table.drop_columns([ordering.AT]))
        whole = operator.Batch(data, pa.array(np.arange(done, done + data.num_rows)), origin)
        done += data.num_rows
        if not given.last:
            given.counters.made -= data.num_rows
        for piece in whole.slices():
            given.push(piece)
