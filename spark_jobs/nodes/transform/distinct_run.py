"""How a `distinct` treats records: equal keys meet in a partition, the first of each goes on, and home.

`Gather` is the end of the region before: it drops what is no first even within its task and sends the rest to the
partition of its key. `First` keeps one record per key. `Home` puts what is left back into record order; with a single
partition `First` does that itself. Null equals null, 1 equals 1.0 (decision 18).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import engine, failure
from spark_jobs.nodes import home, keys, operator, ordering, partition, spill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.transform.distinct_step import DistinctStep

_HASHED = "$hashed."
#: Records that a task looks through at once.
GATHER_ROWS = 262_144


@dataclass
class _Lane:
    """What a task has of one lane: records that wait, and the keys that were sent."""

    place: int
    arrived: int = 0
    waiting: list[pa.Table] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0
    sent: pa.Table | None = None


@dataclass
class Gather(operator.Operator):
    """Sends the first record of each key that its task sees to the partition of the key."""

    step: DistinctStep
    exchange: int = 0
    partitions: int = 1
    lanes: tuple[tuple[int, ...], ...] = ((),)
    found: dict[tuple[int, ...], _Lane] = field(default_factory=dict)

    def process(self, batch: operator.Batch, port: int) -> None:
        """Compute comparable keys; look for firsts when enough records have come together."""
        self.counters.made += batch.count
        lane = self.found.get(batch.lane)
        if lane is None:
            lane = _Lane(ordering.place(self.lanes.index(batch.lane), batch.origin.number))
            self.found[batch.lane] = lane
        data, good = self._keyed(batch)
        at = ordering.first_rows(lane.place, pa.array(np.arange(lane.arrived, lane.arrived + batch.count)))
        data = operator.overlay(operator.with_origin(batch, data), {ordering.AT: at})
        lane.arrived += batch.count
        lane.waiting.append(pa.table(data) if len(good) == batch.count else pa.table(data).take(good))
        lane.waiting_rows += len(good)
        lane.waiting_bytes += data.nbytes
        if lane.waiting_rows >= GATHER_ROWS or lane.waiting_bytes >= spill.held_bytes(self.context):
            self._send(lane)

    def _keyed(self, batch: operator.Batch) -> tuple[pa.RecordBatch, pa.Array]:
        """The records with comparable keys, and those of them that have usable ones."""
        columns: dict[str, pa.Array] = {}
        bad = np.zeros(batch.count, dtype=bool)
        failures: list[engine.RowFailure] = []
        for name, static in self.step.keys:
            column, wrong = keys.column(batch.data.column(name), static)
            columns[_HASHED + name] = column
            for row in np.flatnonzero(wrong & ~bad):
                value = operator.value_at(batch, name, int(row), static)
                detail = f"type mismatch: expected hashable value, got {keys.name(value)}"
                failures.append(engine.RowFailure(int(row), failure.Failure(detail)))
            bad |= wrong
        self.fail(batch, sorted(failures, key=lambda item: item.row))
        data = batch.data.drop_columns([name for name, _ in self.step.keys])
        return operator.overlay(data, columns), pa.array(np.flatnonzero(~bad))

    def _send(self, lane: _Lane) -> None:
        """Send the records whose keys this task has not sent yet."""
        by = [_HASHED + name for name, _ in self.step.keys]
        table = pa.concat_tables(lane.waiting, promote_options="default")
        lane.waiting, lane.waiting_rows, lane.waiting_bytes = [], 0, 0
        known = 0 if lane.sent is None else lane.sent.num_rows
        seen = table.select(by) if lane.sent is None else pa.concat_tables([lane.sent, table.select(by)])
        firsts = _first_rows(seen, by, pa.array(np.arange(seen.num_rows)))
        lane.sent = seen.take(firsts)
        if lane.sent.nbytes > spill.held_bytes(self.context):
            lane.sent = None  # what this task sends twice is dropped where equal keys meet
        rows = firsts.to_numpy()
        fresh = table.take(pa.array(rows[rows >= known] - known))
        self.counters.duplicates += table.num_rows - fresh.num_rows
        self.counters.made -= fresh.num_rows
        for number, part in partition.split(fresh, by, self.partitions):
            self.context.send(self.exchange, number, lane.place, part)

    def finish(self) -> None:
        """Send the rest."""
        for lane in self.found.values():
            if lane.waiting:
                self._send(lane)
        self.found.clear()


def _first_rows(table: pa.Table, by: list[str], among: pa.Array) -> pa.Array:
    """The rows among some that come first with their keys, ascending."""
    rows = table.select(by).take(among).append_column("row", among)
    if not by:
        return among.slice(0, 1)
    grouped = rows.group_by(by, use_threads=False).aggregate([("row", "min")])
    return grouped.column("row_min").combine_chunks().take(pc.sort_indices(grouped.column("row_min")))


@dataclass
class First(home.Meeting):
    """Keeps the first record of each key."""

    step: DistinctStep

    def open(self) -> None:
        """Nothing has come yet."""
        self.by = [_HASHED + name for name, _ in self.step.keys]
        self.records = spill.Keyed(self.context, self.step.name, self.by, self._firsts)

    def receive(self, table: pa.Table) -> None:
        """Records from one task."""
        self.counters.made += table.num_rows
        self.records.add(table)

    def _firsts(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The first record of each key, in record order."""
        table = pa.concat_tables(tables, promote_options="default")
        table = table.take(pc.sort_indices(table.column(ordering.AT)))
        firsts = _first_rows(table, self.by, pa.array(np.arange(table.num_rows)))
        self.counters.duplicates += table.num_rows - len(firsts)
        return table.take(firsts)

    def finish(self) -> None:
        """Send the records home, or give them on in their order."""
        if self.exchange is None:
            found = spill.Ordered(self.context, self.step.name)
            for table in self.records.tables():
                found.add(table.drop_columns(self.by))
            home.push_all(self, found, self.number_of_partition)
            return
        for table in self.records.tables():
            self.counters.made -= table.num_rows
            self.send_home(table.drop_columns(self.by))


def open_operator(step: DistinctStep, *, role: str = "", **wiring: Any) -> operator.Operator:
    """The operator of a part of a distinct."""
    if role == "partial":
        return Gather(step, **wiring)
    return home.Home(step, **wiring) if role == "home" else First(step, **wiring)
