"""Checks a unique index of a table like a rule `unique`, with keys that are equal if the index treats them as equal.

Records of an upsert for the same row may share a value: the last of them decides the row's value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure, failure_columns, types
from spark_jobs.nodes import shuffle
from spark_jobs.nodes.records.columns import HASHED
from spark_jobs.nodes.rules import unique_run
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.nodes.records import batches
    from spark_jobs.nodes.rules.step import UniqueIndexStep
    from spark_jobs.nodes.windows.rows import SortedBatch

_KEY, _ROW = HASHED.of("index"), HASHED.of("row")


@dataclass
class Gather(unique_run.Gather):
    """Sends records to the partitions of their indexed values."""

    step: UniqueIndexStep

    def open(self) -> None:
        super().open()
        rule = self.step.rule
        static, of_rows = ([static for _, static in names] for names in (rule.columns, rule.row_columns))
        self.made = rule.index.maker(static, of_rows)

    @property
    def key_columns(self) -> list[str]:
        return [_KEY]

    def process(self, batch: batches.Batch, port: int) -> None:
        """Compute the indexed values. A record that equals nothing gets a null."""
        mine = self.take(batch)
        rule = self.step.rule
        comparable = {_KEY: self.made.keys([mine.data.column(name) for name, _ in rule.columns])}
        if rule.row_columns:
            comparable[_ROW] = self.made.rows([mine.data.column(name) for name, _ in rule.row_columns])
        self.depart(mine, comparable)


@dataclass
class UniqueIndex(unique_run.Unique):
    """Finds the records that the table would reject after an earlier record."""

    step: UniqueIndexStep

    def keys(self) -> tuple[tuple[str, types.Type], ...]:
        rule = self.step.rule
        is_int = rule.index.is_int([static for _, static in rule.columns])
        return ((_KEY, types.INT if is_int else types.STRING),)

    def open(self) -> None:
        super().open()
        #: The table row of the first record with the values at which the last batch ended.
        self.carried_row: pa.Scalar | None = None

    def broken(self, batch: SortedBatch, later: np.ndarray) -> np.ndarray:
        """A mask of the records that equal an earlier one and belong to another table row."""
        if not self.step.rule.row_columns or not batch.count:
            return later
        rows = batch.rows.column(_ROW)
        firsts = rows.take(pa.array(batch.begins[later]))
        own = rows.take(pa.array(later))
        is_same = pc.fill_null(pc.equal(own, firsts), False).to_numpy(zero_copy_only=False).copy()
        head = int(np.searchsorted(later, batch.head))
        if head and self.carried_row is not None:
            is_same[:head] = pc.fill_null(pc.equal(own[:head], self.carried_row), False).to_numpy(zero_copy_only=False)
        if batch.head < batch.count:
            self.carried_row = rows[batch.last]
        others: np.ndarray = later[~is_same]
        return others

    def reason(self, field: str | None) -> failure_columns.Reason:
        return failure_columns.Reason(failure.Category.VALIDATION, field, self.step.rule.index.message, "")


#: The operators of a unique index by their roles.
OPERATORS = {
    shape.Role.PARTIAL: Gather,
    shape.Role.FINAL: UniqueIndex,
    shape.Role.ORDERED: shuffle.RestoreOrder,
}
