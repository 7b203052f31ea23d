"""Records on their way to where equal keys meet, and back into their order.

A `Departure` is the end of a region: it sends records to the partitions of their keys. A `Meeting` has the records of
one partition and sends what comes of them home, where `Home` puts them into record order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import memory, operator, ordering, partition, spill

if TYPE_CHECKING:
    from spark_jobs.nodes import node


#: Records that a task sends at once.
DEPARTURE_ROWS = 262_144


@dataclass
class _Lane:
    """What waits of one lane."""

    place: int
    arrived: int = 0
    waiting: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


@dataclass
class Departure(operator.Operator):
    """Sends records to the partitions of their keys, many at a time.

    Args:
        exchange: the group exchange.
        partitions: how many partitions it has.
        lanes: the lanes that reach the operator, in record order.
        numbers: those of the splits and partitions that records come from.
    """

    exchange: int = 0
    partitions: int = 1
    lanes: tuple[tuple[int, ...], ...] = ((),)
    numbers: range = range(1)
    _waiting: dict[tuple[int, ...], _Lane] = field(default_factory=dict)

    @property
    def key_columns(self) -> list[str]:
        """The names of the comparable keys."""
        raise NotImplementedError

    def sent(self, lane: tuple[int, ...], table: pa.Table) -> pa.Table:
        """What is sent of some records of a lane: all, unless a subclass knows better."""
        return table

    def depart(self, batch: operator.Batch, keys: dict[str, pa.Array]) -> None:
        """Records leave with comparable keys, what is known of their origin, and their places."""
        self.counters.made -= batch.count
        lane = self._waiting.get(batch.lane)
        if lane is None:
            lane = _Lane(ordering.place(self.lanes.index(batch.lane), batch.origin.number, self.numbers))
            self._waiting[batch.lane] = lane
        at = ordering.places(lane.place, lane.arrived, batch.count)
        data = operator.overlay(
            operator.with_origin(batch, batch.data, self.context.branches), {**keys, ordering.AT: at}
        )
        lane.arrived += batch.count
        lane.waiting.append(pa.table(data))
        lane.rows += batch.count
        lane.bytes += data.nbytes
        self._place.add(data.nbytes)
        if lane.rows >= DEPARTURE_ROWS or 2 * lane.bytes > self._place.room:
            self._send(batch.lane, lane)

    @cached_property
    def _place(self) -> memory.Place:
        return self.context.account.open(self._send_all)

    def _send_all(self) -> None:
        for name, lane in self._waiting.items():
            self._send(name, lane)

    def _send(self, name: tuple[int, ...], lane: _Lane) -> None:
        if not lane.rows:
            return
        # Nothing here keeps a name for the records: each form of them can go as soon as the next is made.
        for number, part in partition.split(self.sent(name, self._taken(lane)), self.key_columns, self.partitions):
            self.context.send(self.exchange, number, lane.place, part)

    def _taken(self, lane: _Lane) -> pa.Table:
        table = pa.concat_tables(lane.waiting, promote_options="default")
        lane.waiting, lane.rows, lane.bytes = [], 0, 0
        self._place.set(sum(each.bytes for each in self._waiting.values()))
        return table

    def finish(self) -> None:
        """Send the rest."""
        with self._place.busy():
            self._send_all()
        self._waiting.clear()


@dataclass
class Meeting(operator.Operator):
    """What parts behind a group exchange have in common: they send home, or give on what nobody else has part of.

    Args:
        exchange: the way home; None with a single partition.
        partitions: how many home partitions there are.
        number_of_partition: which partition of the group exchange this is.
        numbers: those of the splits and partitions whose records the home partitions share.
        incoming_lanes: how many lanes there were before the exchange.
    """

    exchange: int | None = None
    partitions: int = 1
    number_of_partition: int = 0
    numbers: range = range(1)
    incoming_lanes: int = 1

    def send_home(self, table: pa.Table) -> None:
        """Rows, with their places, to the partitions that hold these places."""
        assert self.exchange is not None
        homes = ordering.homes(table.column(ordering.AT), self.numbers, self.incoming_lanes, self.partitions)
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
        for piece in given.portions(whole):
            given.push(piece)
