"""Partial aggregation: a task groups the records that it reads, and sends the states to the partition of their key."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine, failure
from spark_jobs.nodes import keys, memory, operator, partition, spill
from spark_jobs.nodes.aggregate import accumulators, agreed_keys, groups, numbers
from spark_jobs.nodes.correlation import Contributions
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.records.columns import GROUP, ORIGIN_NAMES, ROUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.aggregate.step import AggregateStep

#: One in this many records is sampled to estimate the number of groups.
_SAMPLED = 16


class Grouping:
    """The names and accumulators that all operators of an aggregate share.

    `shared_keys` are columns that records of a group have in common besides the node's keys.
    """

    def __init__(self, step: AggregateStep, context: operator.Context, shared_keys: Sequence[str] = ()) -> None:
        self.names = [f"key {i}" for i in range(len(step.keys))]
        self.keys = [*self.names, *shared_keys]
        kinds = (step.input.get(name) for name in step.keys)
        # A key column that needs no normalizing needs no second column for its value.
        self.values = [
            key if column is not None and keys.is_value(column.type) else f"value {i}"
            for i, (key, column) in enumerate(zip(self.names, kinds, strict=True))
        ]
        #: The columns that locate a group's first record.
        self.origin = (*ORIGIN_NAMES, *([ROUTE.name] if len(context.branches) > 1 else []))
        self.extra_columns = [*(v for k, v in zip(self.names, self.values, strict=True) if k != v), *self.origin]
        self.accumulators = [accumulators.accumulator(call) for call in step.program.calls]
        self.agreed = agreed_keys.AgreedKeys(step.agreed_keys, step.input)
        #: The accumulators that hold states. Calls with the same columns share them.
        parts = (part for each in self.accumulators for part in each.parts())
        self.state_accumulators = list({part.name: part for part in (*parts, *self.agreed.state_accumulators)}.values())
        #: The bytes that grouping allocates for each group.
        self.row_bytes = memory.grouping_bytes(sum(accumulator.width for accumulator in self.state_accumulators))

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge states of the same groups; the tables are in record order.

        Tables differ in the width of their sums and in the digit columns of their floats. The concatenated table has
        all of these columns.
        """
        table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
        columns = {name: array(table, name) for name in table.schema.names}
        states = [state for accumulator in self.state_accumulators for state in accumulator.merge_states(columns)]
        return groups.reduce(self.keys, columns, self.extra_columns, states)


def array(table: pa.Table, name: str) -> pa.Array:
    """A column as one chunk."""
    column = table.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


@dataclass
class _Grouped:
    """The groups that a task has made of the records of one merge path, and the rank of its places."""

    rank: int
    branch: int
    raw: list[dict[str, pa.Array]] = field(default_factory=list)
    raw_rows: int = 0
    raw_bytes: int = 0
    partial: list[pa.Table] = field(default_factory=list)
    #: Records grouped so far, the groups in `partial`, and the groups that were there after the last merge.
    grouped: int = 0
    partial_rows: int = 0
    merged_rows: int = 0
    #: The estimated number of groups per raw record, and the number of raw records at the time of the estimate.
    groups_per_row: float = 1.0
    sampled: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of the buffered rows and states."""
        return self.raw_bytes + sum(int(table.nbytes) for table in self.partial)

    @property
    def has_unlike(self) -> bool:
        """True if hardly any two records that were grouped together shared a group, so that merging gains nothing."""
        return 5 * self.partial_rows > 4 * self.grouped


@dataclass
class Partial(operator.Operator):
    """Groups the records of a task."""

    step: AggregateStep
    exchange: int = 0
    partitions: int = 1

    def open(self) -> None:
        self.grouping = Grouping(self.step, self.context)
        before = self.step.program.before
        self.before = operator.compiled(before) if before.statements else None
        self.numeric = numbers.arguments(self.step)
        self.state = engine.EvaluationContext()
        self.found: dict[order.MergePath, _Grouped] = {}
        self.reservation = self.context.memory_pool.reserve(self._release)

    def process(self, batch: batches.Batch, port: int) -> None:
        """Prepare keys and arguments; group the records when enough are buffered."""
        batch, columns = self.ready(self.take(batch))
        self.count_replaced(batch.count, 0)
        self.hold(batch, self.prepared(batch, columns))

    def ready(self, batch: batches.Batch) -> tuple[batches.Batch, dict[str, pa.Array]]:
        """The records that the program accepts, and the keys and arguments that it computes for them."""
        if self.step.undeclared:
            lifted = {name: batches.undeclared(batch.data, name) for name in self.step.undeclared}
            batch = replace(batch, data=batches.overlay(batch.data, lifted))
        emits: dict[str, pa.Array] = {}
        if self.before is not None:
            result = self.run(self.before, batch, self.state)
            self.fail(batch, [self._add_error(item) for item in result.failures])
            kept = batch if result.rows is None else batch.take(result.rows)
            self.count_replaced(batch.count - len(result.failures) - kept.count, 0)  # a filter left them out
            batch, emits = kept, result.emits
        return self._keyed(batch, emits)

    def hold(self, batch: batches.Batch, prepared: dict[str, pa.Array]) -> None:
        """Buffer records, in as many copies as each has groups; group them when enough are buffered."""
        count = len(prepared[order.AT])
        if not count:
            return
        self.collect(batch, prepared)
        if not self.context.correlation.needs_rows(self.step.name):
            return
        state = self.found.get(batch.merge_path)
        if state is None:
            state = self.found[batch.merge_path] = _Grouped(self.stream.rank(batch), batch.branch)
        state.raw.append(prepared)
        state.raw_rows += count
        size = sum(column.nbytes for column in prepared.values())
        state.raw_bytes += size
        self.reservation.add(size)
        if state.raw_rows >= self.context.tuning.group_rows or self._fills_room(state):
            self._group(state)
            self._merge_where_many(state)

    def collect(self, batch: batches.Batch, prepared: dict[str, pa.Array]) -> None:
        """Report the groups of the records, if correlation asks for them."""
        self.context.correlation.collect(self.step.name, lambda: self._contributions(batch, prepared))

    def _contributions(self, batch: batches.Batch, prepared: dict[str, pa.Array]) -> Contributions:
        if ORIGIN_NAMES[0] in prepared:
            _, split, row = (prepared[name] for name in ORIGIN_NAMES)
        else:
            _, split, row = batch.origin.of_rows(prepared[ORIGIN_NAMES[2]])
        inner = prepared.get(GROUP.name, pa.nulls(len(row), GROUP.type))
        return Contributions(split, row, inner, [prepared[name] for name in self.grouping.keys])

    def _add_error(self, item: engine.RowFailure) -> engine.RowFailure:
        return group_error(self.step.name, item)

    def _keyed(self, batch: batches.Batch, emits: dict[str, pa.Array]) -> tuple[batches.Batch, dict[str, pa.Array]]:
        """The batch with its key columns, without the rows whose key or argument is unusable."""
        columns = dict(emits)
        bad = np.zeros(batch.count, dtype=bool)
        failures = []
        for i, name in enumerate(self.step.keys):
            static = self.step.input.get(name).type  # type: ignore[union-attr]
            columns[self.grouping.names[i]], wrong = keys.column(batch.data.column(name), static)
            for row in np.flatnonzero(wrong & ~bad):
                value = batches.value_at(batch, name, int(row), static)
                kind = "NaN" if isinstance(value, float) else f"unsupported type '{keys.name(value)}'"
                detail = f"aggregate {self.step.name}: {kind} in group_by field '{name}'"
                failures.append(
                    engine.RowFailure(int(row), failure.Failure(detail, failure.Category.AGGREGATE, None, name))
                )
            bad |= wrong
        if self.numeric:
            given = {name: columns[name] if name in columns else batch.data.column(name) for name in self.numeric}
            failures += [item for item in numbers.failures(self.step, self.numeric, given) if not bad[item.row]]
            bad[[item.row for item in failures]] = True
        if failures:
            self.fail(batch, sorted(failures, key=lambda item: item.row))
            kept = pa.array(np.flatnonzero(~bad))
            batch, columns = batch.take(kept), {name: column.take(kept) for name, column in columns.items()}
        return batch, columns

    def prepared(self, batch: batches.Batch, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Keys, arguments and places of a batch's records."""
        prepared = {name: columns[name] for name in self.grouping.names}
        prepared |= {
            value: batch.data.column(name)
            for value, name in zip(self.grouping.values, self.step.keys, strict=True)
            if value not in prepared
        }
        for call in self.step.program.calls:
            for name in call.arguments:
                prepared[name] = columns[name] if name in columns else batch.data.column(name)
        prepared |= self.grouping.agreed.prepared(batch.data)
        prepared[order.AT] = batch.places
        prepared |= self.context.correlation.inner_rows(batch)
        if ORIGIN_NAMES[0] in batch.data.schema.names:
            prepared |= {name: batch.data.column(name) for name in ORIGIN_NAMES}
            if ROUTE.name in self.grouping.origin:
                prepared[ROUTE.name] = batch.branches
        else:
            self.split_origin = batch.origin
            prepared[ORIGIN_NAMES[2]] = batch.rows
        return prepared

    def _fills_room(self, state: _Grouped) -> bool:
        """True if grouping the raw records would take all available memory."""
        if not state.raw_rows:
            return False
        room = self.reservation.room - state.raw_bytes
        each = self.grouping.row_bytes + 2 * state.raw_bytes // state.raw_rows
        if each * state.raw_rows <= room:
            return False
        if state.raw_rows >= 2 * state.sampled:
            sample = pa.concat_tables([self._sample(part) for part in state.raw])
            state.groups_per_row, state.sampled = groups.estimate(sample, state.raw_rows), state.raw_rows
        return each * state.raw_rows * state.groups_per_row > room

    def _sample(self, part: dict[str, pa.Array]) -> pa.Table:
        rows = pa.array(np.arange(0, len(part[order.AT]), _SAMPLED))
        return pa.table({name: part[name].take(rows) for name in self.grouping.keys or [order.AT]})

    def _group(self, state: _Grouped) -> None:
        """Group the raw records of a merge path into partial groups."""
        raw, state.raw = state.raw, []
        columns = {name: pa.chunked_array([part.pop(name) for part in raw]).combine_chunks() for name in list(raw[0])}
        count, state.raw_rows, state.raw_bytes = state.raw_rows, 0, 0
        states = []
        for accumulator in self.grouping.state_accumulators:
            states += accumulator.first([columns[name] for name in accumulator.call.arguments], count)
        carried = [name for name in self.grouping.extra_columns if name in columns]
        table = groups.reduce(self.grouping.keys, columns, carried, states)
        if ORIGIN_NAMES[0] not in columns:
            table = self._with_origin(table, state.branch)
        state.partial.append(table)
        state.grouped += count
        state.partial_rows += table.num_rows
        self._count_held()

    def _count_held(self) -> None:
        self.reservation.set(sum(state.bytes for state in self.found.values()))

    def _merge_where_many(self, state: _Grouped) -> None:
        if state.partial_rows - state.merged_rows > self.context.tuning.merge_rows:
            self._merge(state)

    def _release(self) -> None:
        """Merge the groups to free memory, and send those that hardly shrink."""
        for state in self.found.values():
            before = state.bytes
            if state.raw:
                self._group(state)
            self._merge(state)
            if state.bytes > before // 2:
                self._send(state)

    def _with_origin(self, table: pa.Table, branch: int) -> pa.Table:
        """Replace the row of each group's first record in the task by its origin: split and row there."""
        row = ORIGIN_NAMES[2]
        origin = self.split_origin.of_rows(array(table, row))
        table = table.drop_columns([row])
        for name, column in zip(ORIGIN_NAMES, origin, strict=True):
            table = table.append_column(name, column)
        if ROUTE.name in self.grouping.origin:
            table = table.append_column(ROUTE.name, pa.repeat(pa.scalar(branch, ROUTE.type), table.num_rows))
        leading = [*self.grouping.keys, order.AT, *self.grouping.extra_columns]
        return table.select([*leading, *(name for name in table.schema.names if name not in leading)])

    def _merge(self, state: _Grouped) -> None:
        if len(state.partial) > 1 and not state.has_unlike:
            merge, room, size = self.grouping.merge, self.reservation.room, self.grouping.row_bytes
            found = spill.merged(state.partial, self.meeting_keys, merge, room, size, salt=1)
            state.partial = [table for _, table in found]
        state.partial_rows = state.merged_rows = sum(table.num_rows for table in state.partial)
        self._count_held()

    @property
    def meeting_keys(self) -> list[str]:
        """The columns that decide to which partition a group is sent."""
        return self.grouping.keys

    def _send(self, state: _Grouped) -> None:
        """Send the groups to the partition of their keys: at the end, or as soon as they exceed the memory."""
        tables, state.partial = state.partial, []
        state.grouped = state.partial_rows = state.merged_rows = 0
        for table in tables:
            for number, part in partition.split(table, self.meeting_keys, self.partitions):
                self.context.exchanges.send(self.exchange, number, state.rank, part)
        self._count_held()

    def finish(self) -> None:
        """Group and send the remaining records."""
        with self.reservation.busy():
            for state in self.found.values():
                if state.raw:
                    self._group(state)
                self._merge(state)
                self._send(state)
        self.found.clear()
        self.reservation.close()


def group_error(name: str, item: engine.RowFailure) -> engine.RowFailure:
    """Restate the failure of a record or a group as a failure of the aggregate."""
    detail = f"aggregate {name}: {item.failure.detail}"
    return engine.RowFailure(item.row, failure.restated(item.failure, detail, failure.Category.AGGREGATE))
