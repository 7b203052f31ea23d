"""Shuffles: records are sent to the task that receives all records of their key, and then restored to record order.

A `ShuffleWriter` ends the work of a task on its records and sends each to the partition of its key. A `ShuffleReader`
has all records of one partition and sends its results to `RestoreOrder`, which puts them into record order.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine, failure
from spark_jobs.nodes import keys, memory, operator, partition, spill
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.records.columns import HASHED, is_engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.nodes import node


#: Ranks are few if there are at least this many range partitions for each of them.
_FEW = 4


@dataclass
class _Waiting:
    """The buffered records of one merge path, and the rank of their places."""

    rank: int
    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


@dataclass
class ShuffleWriter(operator.Operator):
    """Sends records to the partitions of their keys, many at a time.

    Args:
        exchange: the group exchange.
        partitions: the number of its partitions.
    """

    exchange: int = 0
    partitions: int = 1
    _waiting: dict[order.MergePath, _Waiting] = field(default_factory=dict)

    @property
    def key_columns(self) -> list[str]:
        """The names of the comparable keys."""
        raise NotImplementedError

    def hashed(
        self, batch: batches.Batch, names: Sequence[tuple[str, types.Type]]
    ) -> tuple[batches.Batch, dict[str, pa.Array]]:
        """The records with usable keys, and comparable keys for some columns. Other records go to the dead letters."""
        columns: dict[str, pa.Array] = {}
        bad = np.zeros(batch.count, dtype=bool)
        failures: list[engine.RowFailure] = []
        for name, static in names:
            column, wrong = keys.column(batch.data.column(name), static)
            columns[HASHED.of(name)] = column
            for row in np.flatnonzero(wrong & ~bad):
                value = batches.value_at(batch, name, int(row), static)
                detail = f"type mismatch: expected hashable value, got {keys.name(value)}"
                field_ = None if is_engine(name) else name
                failures.append(engine.RowFailure(int(row), failure.Failure(detail, field=field_)))
            bad |= wrong
        if not failures:
            return batch, columns
        failures.sort(key=lambda item: item.row)
        self.refused(batch, failures)
        self.fail(batch, failures)
        good = pa.array(np.flatnonzero(~bad))
        return batch.take(good), {name: column.take(good) for name, column in columns.items()}

    def refused(self, batch: batches.Batch, failures: Sequence[engine.RowFailure]) -> None:
        """Handle records without usable keys: they only fail, unless a subclass overrides this."""

    def sent(self, merge_path: order.MergePath, table: pa.Table) -> pa.Table:
        """The records of a merge path that are sent: all of them, unless a subclass drops some."""
        return table

    def depart(self, batch: batches.Batch, keys: dict[str, pa.Array]) -> None:
        """Send records with comparable keys, their origin, and their positions."""
        waiting = self._waiting.get(batch.merge_path)
        if waiting is None:
            waiting = self._waiting[batch.merge_path] = _Waiting(self.stream.rank(batch))
        origin = batches.with_origin(batch, batch.data, self.context.branches)
        data = batches.overlay(origin, {**keys, order.AT: batch.places})
        waiting.tables.append(pa.table(data))
        waiting.rows += batch.count
        waiting.bytes += data.nbytes
        self._reservation.add(data.nbytes)
        if waiting.rows >= self.context.tuning.write_rows or 2 * waiting.bytes > self._reservation.room:
            self._send(batch.merge_path, waiting)

    @cached_property
    def _reservation(self) -> memory.Reservation:
        return self.context.memory_pool.reserve(self._send_all)

    def _send_all(self) -> None:
        for name, waiting in self._waiting.items():
            self._send(name, waiting)

    def _send(self, name: order.MergePath, waiting: _Waiting) -> None:
        if not waiting.rows:
            return
        # No variable here refers to the records, so each form of them can be freed as soon as the next one exists.
        for number, part in self.split(self.sent(name, self._taken(waiting))):
            self.leave(part.num_rows)
            self.context.exchanges.send(self.exchange, number, waiting.rank, part)

    def split(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The records of each partition."""
        return partition.split(table, self.key_columns, self.partitions)

    def _taken(self, waiting: _Waiting) -> pa.Table:
        table = pa.concat_tables(waiting.tables, promote_options="default")
        waiting.tables, waiting.rows, waiting.bytes = [], 0, 0
        self._reservation.set(sum(each.bytes for each in self._waiting.values()))
        return table

    def finish(self) -> None:
        with self._reservation.busy():
            self._send_all()
        self._waiting.clear()

    def broadcast_counts(self) -> None:
        """Send all partitions the number of places of each rank, if ranks are few, for range partitions of equal size.

        If there are about as many ranks as partitions, equal shares of ranks are good enough, and nothing is sent.
        """
        if self.arrivals.ranks * _FEW <= self.partitions and self.stream.counts:
            self.context.exchanges.broadcast(self.exchange, json.dumps(list(self.stream.counts.items())).encode())


@dataclass
class ShuffleReader(operator.Operator):
    """Receives a hash exchange. Sends its results to the range exchange, or pushes them if there is one partition only.

    Args:
        exchange: the range exchange; None with a single partition.
        partitions: the number of range partitions.
        number_of_partition: the number of this partition of the group exchange.
        before: the inputs of the records before the exchange; the range partitions divide these places.
    """

    exchange: int | None = None
    partitions: int = 1
    number_of_partition: int = 0
    before: order.Arrivals = order.ONE
    #: The number of places of each rank before the exchange, if tasks have broadcast it.
    counts: Counter[int] = field(default_factory=Counter)

    def receive_message(self, message: bytes) -> None:
        """Receive a task's broadcast counts of its positions (see `ShuffleWriter.broadcast_counts`)."""
        self.counts.update(dict(json.loads(message)))

    def send_in_order(self, table: pa.Table) -> None:
        """Send rows, with their places, to the range partitions of these places."""
        assert self.exchange is not None
        self.leave(table.num_rows)
        range_partitions = self.before.range_partitions(table.column(order.AT), self.partitions, self.counts)
        for number, part in partition.cut(table, range_partitions):
            self.context.exchanges.send(self.exchange, number, self.number_of_partition, part)


@dataclass
class RestoreOrder(operator.Operator):
    """Restores the order of the records, or groups, of a range of places."""

    step: node.Step
    number_of_partition: int = 0

    #: The columns by which records are sorted.
    ordered_by: ClassVar[tuple[str, ...]] = (order.AT,)

    def open(self) -> None:
        self.records = spill.ExternalSorter(self.context, self.step.name, self.ordered_by)

    def receive(self, table: pa.Table) -> None:
        """Add the records of one partition."""
        self.enter(table.num_rows)
        self.records.add(table)

    def finish(self) -> None:
        """Push all records of the range in order."""
        push_all(self, self.records, self.origin(), self.ordered_by)

    def origin(self) -> batches.Origin:
        """The origin of the records."""
        return self.context.exchanges.record_origin(self.number_of_partition)


def push_all(
    given: operator.Operator, records: spill.ExternalSorter, origin: batches.Origin, by: Sequence[str] = (order.AT,)
) -> None:
    """Push records in order, without the columns that order them."""
    done = 0
    for table in records.tables():
        data = batches.gather(table.drop_columns(list(by)))
        whole = batches.Batch(data, pa.array(np.arange(done, done + data.num_rows)), origin)
        done += data.num_rows
        for piece in given.slices(whole):
            given.push(piece)
