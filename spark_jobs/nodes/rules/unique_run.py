"""Operators of the rule `unique`: the first of several records with equal values is kept, the others break the rule.

`Gather` is the end of the upstream fragment: it sends records to the partition of their values. `Unique` has all
records of a partition, sorted by values and then by place, so that it compares only neighbors, however many are equal.
`RestoreOrder` puts records back into order; with a single partition `Unique` does that itself. Nulls and NaN equal
nothing: records that have one among their values are spread over the partitions by their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import failure, failure_columns, types
from spark_jobs.nodes import keys, partition, shuffle, spill
from spark_jobs.nodes.records import batches, identity, order
from spark_jobs.nodes.records.columns import HASHED, ORIGIN_NAMES
from spark_jobs.nodes.rules import texts
from spark_jobs.nodes.rules.step import Severity
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.windows.rows import Order, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.rules.step import UniqueIndexStep, UniqueStep
    from spark_jobs.nodes.windows.rows import SortedBatch


def _key_columns(step: UniqueStep | UniqueIndexStep) -> list[str]:
    """The comparable keys, which are the columns themselves if Arrow can compare them."""
    return [name if keys.is_value(static) else HASHED.of(name) for name, static in step.rule.columns]


def _has_null(table: pa.Table, names: list[str]) -> np.ndarray:
    """A mask of the rows with a null in any of the columns."""
    found = np.zeros(table.num_rows, dtype=bool)
    for name in names:
        if table.column(name).null_count:
            found |= table.column(name).is_null().to_numpy()
    return found


@dataclass
class Gather(shuffle.ShuffleWriter):
    """Sends records to the partitions of their values."""

    step: UniqueStep | UniqueIndexStep

    @property
    def key_columns(self) -> list[str]:
        return _key_columns(self.step)

    def process(self, batch: batches.Batch, port: int) -> None:
        """Compute comparable values. Values that equal nothing, such as NaN, become null."""
        mine = self.take(batch)
        comparable = {
            HASHED.of(name): keys.equal_column(mine.data.column(name), static)
            for name, static in self.step.rule.columns
            if not keys.is_value(static)
        }
        self.depart(mine, comparable)

    def split(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Split by values. Records that equal no other are spread, because there may be very many of them."""
        is_alone = _has_null(table, self.key_columns)
        if self.partitions == 1 or not is_alone.any():
            return super().split(table)
        numbers = partition.numbers([table.column(name) for name in self.key_columns], self.partitions)
        by_place = partition.numbers([table.column(order.AT)], self.partitions)
        return partition.cut(table, np.where(is_alone, by_place, numbers))


@dataclass
class Unique(shuffle.ShuffleReader):
    """Sorts the records of its partition, and finds those that equal an earlier one."""

    step: UniqueStep | UniqueIndexStep

    def keys(self) -> tuple[tuple[str, types.Type], ...]:
        """The comparable keys, with the types of their values."""
        kinds = [types.STRING if static.is_dynamic else static for _, static in self.step.rule.columns]
        return tuple(zip(_key_columns(self.step), kinds, strict=True))

    def open(self) -> None:
        keys = self.keys()
        self.by = [name for name, _ in keys]
        by_values = Order(keys, ())
        self.rows = Rows(self.context, self.step.name, by_values, 0, False, self.context.tuning.strip_rows)
        #: The place of the first record with the values at which the last batch ended.
        self.carried = -1
        self.found: spill.ExternalSorter | None = None
        if self.exchange is None:
            self.found = spill.ExternalSorter(self.context, self.step.name)

    def receive(self, table: pa.Table) -> None:
        """Add the records of one task."""
        self.enter(table.num_rows)
        is_alone = _has_null(table, self.by)
        if is_alone.any():
            self._give(table.filter(pa.array(is_alone)))
            table = table.filter(pa.array(~is_alone))
        if table.num_rows:
            self.rows.add(table)

    def finish(self) -> None:
        """Compare all records, then send them to the range exchange or push them in order."""
        for batch in self.rows.sorted_batches():
            self._give(self._kept(batch))
        if self.found is not None:
            shuffle.push_all(self, self.found, self.context.exchanges.record_origin(self.number_of_partition))

    def _kept(self, batch: SortedBatch) -> pa.Table:
        """The records of a sorted batch to keep: all of them, unless the rule turns the others into dead letters."""
        rows = batch.rows.slice(0, batch.count)
        begins = np.asarray(batch.starts[: batch.count])
        records = identity.record_numbers(*(rows.column(name) for name in ORIGIN_NAMES[1:]))
        firsts = records[batch.begins]
        firsts[: batch.head] = self.carried
        if batch.count:
            self.carried = int(firsts[-1])
        broken = self.broken(batch, np.flatnonzero(~begins))
        if not len(broken):
            return pa.table(rows)
        self._break(rows, broken, firsts[broken])
        if self.step.rule.severity is not Severity.ERROR:
            return pa.table(rows)
        return pa.table(rows.take(batches.indices_except(rows.num_rows, broken.tolist())))

    def broken(self, batch: SortedBatch, later: np.ndarray) -> np.ndarray:
        """A mask of records that break the rule: all that equal an earlier one, unless a subclass overrides this."""
        return later

    def _break(self, rows: pa.RecordBatch, broken: np.ndarray, firsts: np.ndarray) -> None:
        """Fail the records that break the rule, or count them with the first of their values."""
        rule = self.step.rule
        records = rows.take(pa.array(broken))
        origin = self.context.exchanges.record_origin(self.number_of_partition)
        batch = batches.Batch(records, pa.array(np.arange(records.num_rows)), origin)
        batch.at = records.column(order.AT)
        shown = texts.of(records, rule.columns, self.guard)
        field = rule.columns[0][0] if len(rule.columns) == 1 else None
        if rule.severity is not Severity.ERROR:
            if self.guard.hides(field):
                shown = pa.nulls(batch.count, pa.string())
            self.context.break_rule(self, rule.name, batch, shown, firsts)
            return
        failing = failure_columns.alike(np.arange(batch.count), self.reason(field), shown)
        self.fail(batch, failing, trigger=rule.name, equal_to=firsts)

    def reason(self, field: str | None) -> failure_columns.Reason:
        """The reason of a failure. `field` is the rule's column if it has only one."""
        rule = self.step.rule
        names = ", ".join(name for name, _ in rule.columns)
        before = rule.message or ("not unique: " if field else f"{names} are not unique: ")
        return failure_columns.Reason(failure.Category.VALIDATION, field, before, None if rule.message else "")

    def _give(self, table: pa.Table) -> None:
        """Send records without the columns that only this rule reads."""
        table = table.drop_columns([name for name in table.schema.names if name in HASHED])
        if self.found is not None:
            self.found.add(table)
        else:
            self.send_in_order(table)


#: The operators of a rule `unique` by their roles.
OPERATORS = {shape.Role.PARTIAL: Gather, shape.Role.FINAL: Unique, shape.Role.ORDERED: shuffle.RestoreOrder}
