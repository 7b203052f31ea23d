"""The operators of an aggregate: partial groups in the tasks that read records, complete groups after the exchange.

`Partial` (`partial.py`) is the end of the fragment that feeds the aggregate: it groups the records of its task and
sends the states to the group exchange. `Final` merges the states of its keys, runs the expressions around the
accumulators, and sends the groups to the range partition of their first record. With a single partition it pushes them
downstream itself. `shuffle.RestoreOrder` puts them back into order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine, failure
from spark_jobs.nodes import memory, operator, shuffle, sorted_runs, spill
from spark_jobs.nodes.aggregate import accumulators, partial
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.records.columns import ORIGIN, ROUTE, value
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.nodes.aggregate.step import AggregateStep


@dataclass
class Final(shuffle.ShuffleReader):
    """Merges the groups of a partition and evaluates the node's emits."""

    step: AggregateStep
    #: The columns that groups are sorted by.
    ordered_by: ClassVar[tuple[str, ...]] = (order.AT,)
    #: The columns that records of a group have in common besides the node's keys.
    shared_keys: ClassVar[tuple[str, ...]] = ()
    #: Further columns that distinguish groups with equal keys.
    extra_keys: ClassVar[tuple[str, ...]] = ()

    def open(self) -> None:
        """Compile the expressions around the accumulators."""
        self.grouping = partial.Grouping(self.step, self.context, self.shared_keys)
        self.after = operator.compiled(self.step.program.after)
        grouping = self.grouping
        self.groups: spill.Spillable = spill.ExternalMap(
            self.context, self.step.name, grouping.keys, self.merged, row_bytes=grouping.row_bytes
        )
        self.is_empty = True
        self.counted: dict[str, int] | None = None

    def receive(self, table: pa.Table) -> None:
        """Add the states of one task, in the order of places."""
        self.is_empty = False
        self.groups.add(table)

    def finish(self) -> None:
        """Send complete groups to the range exchange, or push them in the order of their first records."""
        if self.exchange is not None:
            size = memory.step_bytes(self.context.memory_pool.share)
            for table in self.whole():
                for piece in spill.slices(table, size):
                    ordered = piece.take(sorted_runs.order(piece, self.ordered_by))
                    self.send_in_order(pa.table(self._evaluate(ordered).data))
            return
        found = spill.ExternalSorter(self.context, self.step.name, self.ordered_by)
        for table in self.whole():
            found.add(table)
        if self.is_empty and self.has_one_group:
            found.add(self._no_rows())
        done = 0
        for table in found.tables():
            self.push_all(self._evaluate(table, done))
            done += table.num_rows

    def merged(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge tables of states: one row per group."""
        return self.grouping.merge(tables)

    def whole(self) -> Iterator[pa.Table]:
        """The groups, after all of them have been received."""
        return self.groups.tables()

    @property
    def has_one_group(self) -> bool:
        """True if the aggregate has a group even without records."""
        return not self.step.group_by

    def push_all(self, batch: batches.Batch) -> None:
        """Push the groups downstream without their places."""
        for piece in self.slices(batch):
            self.push(replace(piece, data=piece.data.drop_columns(list(self.ordered_by))))

    def _no_rows(self) -> pa.Table:
        """The single group that an aggregate without `group_by` makes of an empty input."""
        columns: dict[str, pa.Array] = {order.AT: pa.array([0])}
        for each in ORIGIN:
            columns[each.name] = pa.array([-1], each.type)
        if ROUTE.name in self.grouping.origin:
            columns[ROUTE.name] = pa.array([0], ROUTE.type)
        for accumulator in self.grouping.state_accumulators:
            empty = [_no_values(static) for static in accumulator.call.argument_types]
            for state in accumulator.first(empty, 0):
                kind = pa.list_(state.values.type) if state.function == "list" else state.values.type
                columns[state.name] = pa.nulls(1, kind)
        return pa.table(columns)

    def _totals(self, count: int) -> dict[str, pa.Array]:
        """The totals that programs read, as columns of the groups."""
        if self.step.totals is None:
            return {}
        if self.counted is None:
            self.counted = self.step.totals.values(self.context.exchanges.counted())
        return {value(path): pa.repeat(pa.scalar(total), count) for path, total in self.counted.items()}

    def row_keys(self, table: pa.Table) -> list[pa.Array]:
        """The columns that distinguish groups, with a value for each row of the table."""
        return [partial.array(table, name) for name in (*self.grouping.keys, *self.extra_keys)]

    def _evaluate(self, table: pa.Table, first_row: int = 0) -> batches.Batch:
        """The result records: keys, overlaid with the emits."""
        data = {
            name: partial.array(table, value) for name, value in zip(self.step.keys, self.grouping.values, strict=True)
        }
        engine_columns = {name: partial.array(table, name) for name in (*self.grouping.origin, *self.ordered_by)}
        states = {name: partial.array(table, name) for name in table.schema.names}
        results, overflows = accumulators.results_of(self.grouping.accumulators, states, table.num_rows)
        engine_columns |= self._totals(table.num_rows) | self.grouping.agreed.finish(states)
        name = self.step.name
        positions = range(first_row, first_row + table.num_rows)
        engine_columns |= self.context.correlation.row_columns(name, lambda: self.row_keys(table), positions)
        record = pa.RecordBatch.from_pydict({**data, **results, **engine_columns})
        batch = batches.Batch(
            record,
            pa.array(np.arange(first_row, first_row + table.num_rows)),
            batches.GroupOrigin(self.number_of_partition),
            at=record.column(order.AT),
        )
        suppressed = self.context.correlation.suppressed(name, batch)
        if suppressed is not None:
            batch, overflows = batch.take(pa.array(np.flatnonzero(~suppressed))), overflows[~suppressed]
        self.count_replaced(0, batch.count)
        overflowed = overflows != ""
        if overflowed.any():
            errors = [
                engine.RowFailure(
                    int(row),
                    failure.Failure(f"aggregate {self.step.name}: {overflows[row]}", failure.Category.AGGREGATE),
                )
                for row in np.flatnonzero(overflowed)
            ]
            self.fail(batch, errors)
            batch = batch.take(pa.array(np.flatnonzero(~overflowed)))
        outcome = self.run(self.after, batch, engine.EvaluationContext())
        self.fail(batch, [partial.group_error(self.step.name, item) for item in outcome.failures])
        kept = batch if outcome.rows is None else batch.take(outcome.rows)
        columns = {name: kept.data.column(name) for name in data}
        columns |= outcome.emits
        columns |= {name: kept.data.column(name) for name in engine_columns}
        return batches.Batch(pa.RecordBatch.from_pydict(columns), kept.rows, kept.origin)


def _no_values(static: Any) -> pa.Array:
    from spark_jobs.cxl import values

    return pa.array([], values.arrow_type(static))


@dataclass
class RestoreOrder(shuffle.RestoreOrder):
    """Puts groups, which belong to no file, back into order."""

    def origin(self) -> batches.Origin:
        return batches.GroupOrigin(self.number_of_partition)


#: The operators of an aggregate by their roles.
OPERATORS = {shape.Role.PARTIAL: partial.Partial, shape.Role.FINAL: Final, shape.Role.ORDERED: RestoreOrder}
