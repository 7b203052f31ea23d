"""Operators of windows: the rows of a partition are collected, sorted, extended by results, and put back in order.

`Gather` is the end of the upstream fragment: it sends records to the partition of their `group_by` values. `Ranged`
receives a whole partition and adds the results. `RestoreOrder` puts them back into record order; with a single
partition `Ranged` does that itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import engine, types
from spark_jobs.nodes import keys, shuffle, spill
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.records.columns import HASHED
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.transform import directives
from spark_jobs.nodes.windows.arguments import Evaluator
from spark_jobs.nodes.windows.rows import Order, Rows
from spark_jobs.nodes.windows.running import Running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.transform.phases import WindowStep


def _key_columns(step: WindowStep) -> list[str]:
    """The comparable keys: the columns themselves where they can be compared."""
    return [name if keys.is_value(static) else HASHED.of(name) for name, static in step.keys]


@dataclass
class Gather(shuffle.ShuffleWriter):
    """Sends records to the partitions of their keys."""

    step: WindowStep

    @property
    def key_columns(self) -> list[str]:
        return _key_columns(self.step)

    def refused(self, batch: batches.Batch, failures: Sequence[engine.RowFailure]) -> None:
        """The lines about records that fail."""
        directives.log(self, directives.on_error(self, self.step, batch, failures, are_made=False))

    def process(self, batch: batches.Batch, port: int) -> None:
        """Compute comparable keys; records without one become dead letters."""
        unlike = [(name, static) for name, static in self.step.keys if not keys.is_value(static)]
        self.depart(*self.hashed(self.take(batch), unlike))


@dataclass
class Ranged(shuffle.ShuffleReader):
    """Sorts the rows of its partitions and computes the functions over them."""

    step: WindowStep

    def open(self) -> None:
        step, calls = self.step, self.step.calls
        kinds = [types.STRING if static.is_dynamic else static for _, static in step.keys]
        order = Order(tuple(zip(_key_columns(step), kinds, strict=True)), step.fields)
        following, whole = (
            max((call.following for call in calls), default=0),
            any(call.needs_partition for call in calls),
        )
        self.rows = Rows(self.context, step.name, order, following, whole, self.context.tuning.strip_rows)
        self.dropping = [field.name for field in step.fields if field.drops_nulls]
        self.state = engine.EvaluationContext()
        if self.exchange is None:
            self.found = spill.ExternalSorter(self.context, step.name)

    def receive(self, table: pa.Table) -> None:
        """Records from one task; those without a value that `null_order: drop` wants are in no partition."""
        self.enter(table.num_rows)
        for name in self.dropping:
            known = table.column(name).is_valid()
            if not pc.all(known, min_count=0).as_py():
                self._give(table.filter(pc.invert(known)))
                table = table.filter(known)
        if table.num_rows:
            self.rows.add(table)

    def finish(self) -> None:
        """Compute the results for all rows, then send the rows to the range exchange or push them on in order."""
        running = Running(
            self.step.calls, Evaluator(self._run, self.context.tuning), self.step.name, self.context.memory_pool.share
        )
        for batch in self.rows.sorted_batches():
            for found in running.all_columns(batch):
                self._give(pa.table(found))
        if self.exchange is None:
            shuffle.push_all(self, self.found, self.context.exchanges.record_origin(self.number_of_partition))

    def _run(self, program: engine.BatchProgram, rows: pa.RecordBatch) -> engine.BatchResult:
        origin = self.context.exchanges.record_origin(self.number_of_partition)
        batch = batches.Batch(rows, pa.array(np.arange(rows.num_rows)), origin)
        return self.run(program, batch, self.state)

    def _give(self, table: pa.Table) -> None:
        """Send rows without the columns that only their windows read."""
        gone = {*self.step.spare, *(name for name in table.schema.names if name in HASHED)}
        table = table.drop_columns([name for name in table.schema.names if name in gone])
        if self.exchange is None:
            self.found.add(table)
        else:
            self.send_in_order(table)


#: The operators of windows by their roles.
OPERATORS = {shape.Role.PARTIAL: Gather, shape.Role.FINAL: Ranged, shape.Role.ORDERED: shuffle.RestoreOrder}
