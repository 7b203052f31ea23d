"""Outputs that are sorted or split: parts with an index, and sorted runs if they are sorted (see `records.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats import cell_text
from spark_jobs.nodes import keys, sorting
from spark_jobs.nodes.output import records, run
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.rules import references_run
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.cxl import types
    from spark_jobs.nodes.terms.sort import Field


@dataclass
class _Held:
    """Records that are buffered to be sorted."""

    records: list[pa.Array] = field(default_factory=list)
    columns: list[dict[str, pa.Array]] = field(default_factory=list)


@dataclass
class IndexedOutput(run.Output):
    """Writes parts with an index.

    A sorted output buffers its records, up to a part of the task's memory, and writes them as sorted runs, each a part
    of its own. The run merges them. Each key is followed by its record's place, so that equal keys keep their order.
    """

    held: dict[str | None, _Held] = field(default_factory=dict)

    def open(self) -> None:
        """Fix the columns of the index."""
        super().open()
        self.reservation = self.context.memory_pool.reserve(self._write_runs)
        group = self.step.split.group_key if self.step.split else None
        self.group: Field | None = group
        self.frame = self.step.frame
        names = {records.KEY: self.step.sort_order, records.GROUP: group, records.MARK: self.frame}
        marks = self.frame.marks if self.frame else None
        self.opener = partial(records.IndexedFile, columns=[name for name, used in names.items() if used], marks=marks)

    def wanted(self, batch: batches.Batch) -> batches.Batch:
        """Drop records without a value in a sort field whose nulls are dropped."""
        kept = batch
        for each in self.step.sort_order:
            if each.drops_nulls and (column := self._values(kept, each)[0]).null_count:
                kept = kept.take(pc.indices_nonzero(column.is_valid()))
        self.drop(filtered=batch.count - kept.count)
        return kept

    def write(self, batch: batches.Batch, file: str | None) -> None:
        """Write a batch, or buffer it to be sorted."""
        encoded, written = self.encode(batch, ends=True)
        if not encoded.rows or encoded.ends is None:
            return
        found = records.of(encoded.data, encoded.ends, self.writer.separator)
        columns = {}
        if encoded.marks is not None:
            columns[records.MARK] = encoded.marks
        if self.group:
            columns[records.GROUP] = _texts(*self._values(written, self.group))
        if not self.step.sort_order:
            part = self.part(batch.merge_path, file, self.opener)
            part.write(found, columns)
            part.records += len(found)
            return
        columns[records.KEY] = self._keys(written)
        held = self.held.setdefault(file, _Held())
        held.records.append(found)
        held.columns.append(columns)
        self.reservation.add(found.nbytes + sum(column.nbytes for column in columns.values()))

    def finish(self) -> None:
        self._write_runs()
        super().finish()

    def _write_runs(self) -> None:
        """Write one sorted run for each file that has buffered records."""
        for file in list(self.held):
            each = self.held.pop(file)
            part = self.context.files.part(self.step.name, (), self.opener, file)
            names = list(each.columns[0])
            columns = {name: pa.concat_arrays([found.pop(name) for found in each.columns]) for name in names}
            found = pa.concat_arrays(each.records)
            each.records.clear()
            part.records = records.write_sorted(part, found, columns)
            part.close()
        self.reservation.set(0)

    def _keys(self, batch: batches.Batch) -> pa.Array:
        """Each record's sort key, followed by its place."""
        fields = []
        for each in self.step.sort_order:
            column, static = self._values(batch, each)
            fields.append(sorting.field(column, static, descending=each.descending, nulls_first=each.nulls_first))
        return sorting.joined([*fields, sorting.fixed(sorting.big_endian(batch.places))])

    def _values(self, batch: batches.Batch, wanted: Field) -> tuple[pa.Array, types.Type]:
        """A field by which the output is sorted or split, with its type."""
        if wanted.type is None:
            return batches.undeclared(batch.data, wanted.name), self.undeclared_type
        return batch.data.column(wanted.name), wanted.type


def _texts(column: pa.Array, static: types.Type) -> pa.Array:
    """A text for each value, the same for equal values; null for null."""
    if not static.is_dynamic:
        return cell_text.texts(column, static)
    comparable, _ = keys.column(column, static)
    return pc.coalesce(comparable, column)


#: The operators of an output that is sorted or split, by their roles.
OPERATORS = {shape.Role.WHOLE: IndexedOutput, shape.Role.BUILD: references_run.MaterializeReferenced}
