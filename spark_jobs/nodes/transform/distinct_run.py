"""Operators of `distinct`: the first record of each key continues, in order.

`Gather` is the end of the upstream fragment: it drops duplicates within its task, and sends the rest to the partition
of their keys. `First` keeps one record per key. `RestoreOrder` puts these back into record order; with a single
partition `First` does that itself. Null equals null, 1 equals 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import memory, shuffle, spill
from spark_jobs.nodes.records.columns import HASHED
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.transform import directives

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl import engine
    from spark_jobs.nodes.records import batches, order
    from spark_jobs.nodes.transform.phases import DistinctStep


@dataclass
class Gather(shuffle.ShuffleWriter):
    """Sends the first record of each key that its task sees to the partition of the key."""

    step: DistinctStep

    def open(self) -> None:
        """Start without known keys."""
        self.known: dict[order.MergePath, pa.Table] = {}
        self.reservation = self.context.memory_pool.reserve(self._forget)

    def _forget(self) -> None:
        """Forget the keys that were sent. Later duplicates are dropped in the partition of the key."""
        self.known.clear()
        self.reservation.set(0)

    @property
    def key_columns(self) -> list[str]:
        return _key_columns(self.step)

    def refused(self, batch: batches.Batch, failures: Sequence[engine.RowFailure]) -> None:
        """Write the log lines about records that fail."""
        directives.log(self, directives.on_error(self, self.step, batch, failures, are_made=False))

    def process(self, batch: batches.Batch, port: int) -> None:
        """Compute comparable keys. Records without one become dead letters."""
        batch, columns = self.hashed(self.take(batch), self.step.keys)
        rest = batch.data.drop_columns([name for name, _ in self.step.keys])
        self.depart(replace(batch, data=rest), columns)

    def sent(self, merge_path: order.MergePath, table: pa.Table) -> pa.Table:
        """The records whose keys this task has not sent yet."""
        arrived = table.select(self.key_columns)
        if (known := self.known.get(merge_path)) is not None and self._needed(known, arrived) > self.reservation.room:
            self._forget()
            known = None
        count = 0 if known is None else known.num_rows
        seen = arrived if known is None else pa.concat_tables([known, arrived])
        firsts = _first_rows(seen, self.key_columns)
        rows = firsts.to_numpy()
        fresh = table.take(pa.array(rows[rows >= count] - count))
        self.known[merge_path] = seen.take(firsts)
        self.reservation.set(sum(table.nbytes for table in self.known.values()))
        self.drop(duplicates=table.num_rows - fresh.num_rows)
        return fresh

    @staticmethod
    def _needed(known: pa.Table, arrived: pa.Table) -> int:
        rows = known.num_rows + arrived.num_rows
        return int(2 * (known.nbytes + arrived.nbytes) + memory.grouping_bytes(0) * rows)


def _key_columns(step: DistinctStep) -> list[str]:
    return [HASHED.of(name) for name, _ in step.keys]


def _first_rows(table: pa.Table, by: list[str]) -> pa.Array:
    """The first row of each key, ascending."""
    among = pa.array(np.arange(table.num_rows, dtype=np.int32))
    if not by:
        return among.slice(0, 1)
    rows = table.select(by).append_column("row", among)
    grouped = rows.group_by(by, use_threads=False).aggregate([("row", "min")])
    return grouped.column("row_min").combine_chunks().take(pc.sort_indices(grouped.column("row_min")))


@dataclass
class First(shuffle.ShuffleReader):
    """Keeps the first record of each key."""

    step: DistinctStep

    def open(self) -> None:
        self.by = _key_columns(self.step)
        self.records = spill.ExternalMap(self.context, self.step.name, self.by, self._firsts)

    def receive(self, table: pa.Table) -> None:
        """Add the records of one task."""
        self.enter(table.num_rows)
        self.records.add(table)

    def _firsts(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The first record of each key. Records of a key arrive in record order."""
        table = pa.concat_tables(tables, promote_options="default")
        firsts = _first_rows(table, self.by)
        self.drop(duplicates=table.num_rows - len(firsts))
        return table.take(firsts)

    def finish(self) -> None:
        """Send the records to the range exchange, or push them in order."""
        if self.exchange is None:
            found = spill.ExternalSorter(self.context, self.step.name)
            for table in self.records.tables():
                found.add(table.drop_columns(self.by))
            shuffle.push_all(self, found, self.context.exchanges.record_origin(self.number_of_partition))
            return
        for table in self.records.tables():
            self.send_in_order(table.drop_columns(self.by))


#: The operators of a distinct by their roles.
OPERATORS = {shape.Role.PARTIAL: Gather, shape.Role.FINAL: First, shape.Role.ORDERED: shuffle.RestoreOrder}
