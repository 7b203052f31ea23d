"""Text fields of records to blocks: conversion, absent values, failures, and what is carried.

Shared by the formats whose fields are texts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns, values
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, coerce, format

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from spark_jobs.cxl.failure_columns import Failures, Reason, Rows
    from spark_jobs.formats.format import FileColumns, Reading, SourceColumn


class Problems:
    """The records that some column fails: the first column counts, and why it does."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reasons: list[tuple[Reason, int | None]] = []
        self._reason: Rows | None = None

    def note(self, rows: Rows, reason: Reason, field: int | None) -> None:
        """Records that a column fails; `field` has the texts that are to blame."""
        if not len(rows):
            return
        if self._reason is None:
            self._reason = np.full(self.count, -1, dtype=np.int64)
        self._reason[rows[self._reason[rows] < 0]] = len(self.reasons)
        self.reasons.append((reason, field))

    @property
    def rows(self) -> Rows:
        """The failing ones."""
        return np.empty(0, dtype=np.int64) if self._reason is None else np.flatnonzero(self._reason >= 0)

    def failures(self, texts: Mapping[int, pa.StringArray], places: Rows) -> Failures:
        """Them with their texts, by their places."""
        found = []
        for number, (reason, field) in enumerate(self.reasons):
            rows = np.flatnonzero(self._reason == number)
            found.append(
                failure_columns.alike(
                    rows, reason, None if field is None else failure_columns.chosen(texts[field], rows)
                )
            )
        whole = failure_columns.joined(found)
        return replace(whole, rows=places[whole.rows])


class RecordShape:
    """How the fields of a file's records become the columns of its source.

    Args:
        reading: what is wanted.
        columns: which field feeds which column.
        has_nulls: whether an empty cell is null in columns of texts too, where it else is the empty text.
        ready: fields that are no texts but values of their columns' types already.
    """

    def __init__(
        self, reading: Reading, columns: FileColumns, *, has_nulls: bool = False, ready: Collection[int] = ()
    ) -> None:
        self._reading = reading
        self._columns = columns
        self._has_nulls = has_nulls
        self._ready = frozenset(ready)
        self._widened = columns.widened if reading.widened else ()
        self._absent: Mapping[int, np.ndarray] = {}
        self.needed = self._fields_needed()

    def _fields_needed(self) -> list[int]:
        """The fields that must be read: carried ones, those that can fail, and all when failures are shown."""
        reading = self._reading
        fields = {field for field in self._widened if field is not None}
        for column, field in zip(reading.columns, self._columns.declared, strict=True):
            if field is not None and (reading.failure_texts or reading.carries(column.name) or self._can_fail(column)):
                fields.add(field)
        return sorted(fields)

    def _can_fail(self, column: SourceColumn) -> bool:
        has_nulls = self._has_nulls or bool(column.spelling.null_values)
        return column.type.kind is not Kind.STRING or (column.required and has_nulls)

    def block(
        self,
        first: int,
        count: int,
        texts: Mapping[int, pa.StringArray],
        rows: Rows | None,
        malformed: Failures,
        absent: Mapping[int, np.ndarray] | None = None,
    ) -> format.Block:
        """The block of some records.

        Args:
            first: the place of the first record in the split.
            count: how many records there are, malformed ones included.
            texts: the texts of the needed fields of all well-formed records, null for empty cells.
            rows: the places of the well-formed records; None when all records are well-formed.
            malformed: the failures of the others.
            absent: whether each well-formed record is of a kind without the field, by fields that not all kinds have.
        """
        self._absent = absent or {}
        size = count if rows is None else len(rows)
        converted: list[pa.Array | None] = []
        problems = Problems(size)
        for position, field in enumerate(self._columns.declared):
            text = texts.get(field) if field is not None else None
            converted.append(self._column(position, text, size, problems))
        if not problems.reasons and not len(malformed):
            return format.Block(first, count, self._batch(converted, texts, size))
        return self._with_failures(first, count, texts, rows, malformed, converted, problems)

    def _column(self, position: int, text: pa.StringArray | None, size: int, problems: Problems) -> pa.Array | None:
        """A declared column's values; notes the rows that fail. None when nobody needs it."""
        column = self._reading.columns[position]
        if self._columns.declared[position] is None:
            if column.required:
                problems.note(np.arange(size), coerce.absence(column), None)
            return pa.nulls(size, values.arrow_type(column.type))
        if text is None:
            return None
        field, nulls = self._columns.declared[position], column.spelling.null_values
        if field in self._ready:
            found: pa.Array = text
        elif column.type.kind is Kind.STRING:
            found = text = self._texts(text, field, nulls)
        else:
            text = coerce.without_nulls(text, nulls)
            done = coerce.convert(text, column.type, self._reading.forms(column), column.spelling)
            for rows, reason in coerce.no_conversions(column, text, done.failed):
                problems.note(rows, reason, field)
            found = done.array
        if column.required and text.null_count and self._can_fail(column):
            missing = pc.indices_nonzero(pc.is_null(text)).to_numpy().astype(np.int64)
            if (absent := self._absent.get(field)) is not None:  # type: ignore[arg-type]  # a field
                missing = missing[~absent[missing]]
            problems.note(missing, coerce.absence(column), None)
        return found

    def _texts(self, text: pa.StringArray, field: int | None, null_values: tuple[str, ...]) -> pa.StringArray:
        """Texts as columns have them: an empty cell is the empty text, unless it is a word for nothing."""
        if self._has_nulls or not text.null_count:
            return coerce.without_nulls(text, null_values)
        filled: pa.StringArray = coerce.without_nulls(pc.fill_null(text, ""), null_values)
        absent = self._absent.get(field) if field is not None else None
        if absent is None:
            return filled
        return pc.replace_with_mask(filled, pa.array(absent), pa.scalar(None, pa.string()))

    def _batch(
        self, converted: list[pa.Array | None], texts: Mapping[int, pa.StringArray], size: int
    ) -> pa.RecordBatch:
        names, arrays = [], []
        for column, array in zip(self._reading.columns, converted, strict=True):
            if array is not None and self._reading.carries(column.name):
                names.append(column.name)
                arrays.append(array)
        for name, field in zip(self._reading.widened, self._widened, strict=True):
            names.append(format.WIDENED + name)
            arrays.append(
                pa.nulls(size, pa.string())
                if field is None
                else self._texts(texts[field], field, self._reading.null_values)
            )
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, names=names)
        # Without columns the number of rows is all there is: a batch of an empty struct keeps it.
        return pa.RecordBatch.from_struct_array(pa.array([{}] * size, pa.struct([])))

    def _with_failures(
        self,
        first: int,
        count: int,
        texts: Mapping[int, pa.StringArray],
        rows: Rows | None,
        malformed: Failures,
        converted: list[pa.Array | None],
        problems: Problems,
    ) -> format.Block:
        places = np.arange(first, first + count, dtype=np.int64) if rows is None else rows
        bad = problems.rows
        found = failure_columns.joined([malformed, problems.failures(texts, places)])
        failed_rows = None
        if self._reading.failure_texts:
            order = np.argsort(np.concatenate([malformed.rows, places[bad]]), kind="stable")
            failed_rows = self._shown(bad, len(malformed), texts, converted).take(pa.array(order))
        batch = self._batch(converted, texts, len(places))
        if len(bad):
            keep = np.delete(np.arange(len(places), dtype=np.int64), bad)
            batch, places = batch.take(pa.array(keep)), places[keep]
        return format.Block(first, count, batch, pa.array(places, pa.int64()), found, failed_rows)

    def _shown(
        self, bad: Rows, malformed: int, texts: Mapping[int, pa.StringArray], converted: list[pa.Array | None]
    ) -> pa.RecordBatch:
        """The failing records as dead letters show them: a row of nulls for each malformed one, then the rows `bad`."""
        chosen = pa.array(bad, pa.int64())
        arrays: list[Any] = []
        for column, field, array in zip(self._reading.columns, self._columns.declared, converted, strict=True):
            if field is None or array is None:
                arrays.append(pa.nulls(malformed + len(bad), pa.string()))
                continue
            shown = cell_text.texts(array.take(chosen), column.type)
            as_read = texts[field].take(chosen)
            arrays.append(pa.concat_arrays([pa.nulls(malformed, pa.string()), pc.coalesce(shown, as_read)]))
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._reading.columns])


def spread(array: pa.StringArray, places: np.ndarray, count: int) -> pa.StringArray:
    """Texts at the places of their records, nulls at those of others."""
    if len(places) == count:
        return array
    if not len(places):
        return pa.nulls(count, pa.string())
    indices = np.zeros(count, dtype=np.int64)
    is_absent = np.ones(count, dtype=np.bool_)
    indices[places] = np.arange(len(places))
    is_absent[places] = False
    return array.take(pa.array(indices, mask=is_absent))


def malformed(detail: str, raw: str | bytes) -> Failure:
    """The failure of a record whose structure is broken, with the beginning of its text."""
    head = raw[: format.RAW_TEXT_LIMIT * 4]
    text = head if isinstance(head, str) else head.decode("utf-8", "replace")
    return Failure(_malformed(detail), Category.MALFORMED, text[: format.RAW_TEXT_LIMIT].rstrip("\r\n"))


def malformed_reason(detail: str) -> Reason:
    """What is wrong with many such records alike."""
    return failure_columns.Reason(Category.MALFORMED, None, _malformed(detail))


def _malformed(detail: str) -> str:
    return f"malformed record: {detail}"
