"""Text fields of records to blocks: conversion, absent values, failures, and what is carried.

Shared by the formats whose fields are texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, coerce, format

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.formats.format import FileColumns, Reading, SourceColumn

    Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
    #: For each failing row the position of the declared column that fails it, and whether it has a text that does not
    #: convert.
    Problems = dict[int, tuple[int, bool]]


class RecordShape:
    """How the fields of a file's records become the columns of its source."""

    def __init__(self, reading: Reading, columns: FileColumns) -> None:
        self._reading = reading
        self._columns = columns
        self._widened = columns.widened if reading.widened else ()
        self.needed = self._fields_needed()

    def _fields_needed(self) -> list[int]:
        """The fields that must be read: carried ones, those that can fail, and all when failures are shown."""
        reading = self._reading
        fields = {field for field in self._widened if field is not None}
        for column, field in zip(reading.columns, self._columns.declared, strict=True):
            if field is not None and (reading.failure_texts or reading.carries(column.name) or _can_fail(column)):
                fields.add(field)
        return sorted(fields)

    def block(
        self,
        first: int,
        count: int,
        texts: Mapping[int, pa.StringArray],
        rows: Rows | None,
        malformed: Sequence[RowFailure],
    ) -> format.Block:
        """The block of some records.

        Args:
            first: the place of the first record in the split.
            count: how many records there are, malformed ones included.
            texts: the texts of the needed fields of all well-formed records, null for empty cells.
            rows: the places of the well-formed records; None when all records are well-formed.
            malformed: the failures of the others.
        """
        size = count if rows is None else len(rows)
        converted: list[pa.Array | None] = []
        problems: Problems = {}
        for position, field in enumerate(self._columns.declared):
            text = texts.get(field) if field is not None else None
            converted.append(self._column(position, text, size, problems))
        if not problems and not malformed:
            return format.Block(first, count, self._batch(converted, texts, size))
        return self._with_failures(first, count, texts, rows, malformed, converted, problems)

    def _column(self, position: int, text: pa.StringArray | None, size: int, problems: Problems) -> pa.Array | None:
        """A declared column's values; notes the rows that fail. None when nobody needs it."""
        column = self._reading.columns[position]
        if self._columns.declared[position] is None:
            if column.required:
                for row in range(size):
                    problems.setdefault(row, (position, False))
            return pa.nulls(size, values.arrow_type(column.type))
        if text is None:
            return None
        if column.type.kind is Kind.STRING:
            return pc.fill_null(text, "") if text.null_count else text
        done = coerce.convert(text, column.type, self._reading.forms(column))
        for row in done.failed:
            problems.setdefault(row, (position, True))
        if column.required and text.null_count:
            for row in pc.indices_nonzero(pc.is_null(text)).to_pylist():
                problems.setdefault(row, (position, False))
        return done.array

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
            arrays.append(pa.nulls(size, pa.string()) if field is None else pc.fill_null(texts[field], ""))
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
        malformed: Sequence[RowFailure],
        converted: list[pa.Array | None],
        problems: Problems,
    ) -> format.Block:
        places = np.arange(first, first + count, dtype=np.int64) if rows is None else rows
        bad = sorted(problems)
        failures = [*malformed, *(self._failure(int(places[row]), row, *problems[row], texts) for row in bad)]
        order = sorted(range(len(failures)), key=lambda index: failures[index].row)
        failed_rows = None
        if self._reading.failure_texts:
            failed_rows = self._shown(bad, len(malformed), texts, converted).take(pa.array(order, pa.int64()))
        batch = self._batch(converted, texts, len(places))
        if bad:
            keep = np.delete(np.arange(len(places), dtype=np.int64), bad)
            batch, places = batch.take(pa.array(keep)), places[keep]
        return format.Block(first, count, batch, pa.array(places), [failures[index] for index in order], failed_rows)

    def _failure(
        self, place: int, row: int, position: int, is_conversion: bool, texts: Mapping[int, pa.StringArray]
    ) -> RowFailure:
        column, field = self._reading.columns[position], self._columns.declared[position]
        if not is_conversion or field is None:
            return RowFailure(place, coerce.absence_of(column))
        return RowFailure(place, coerce.failure_of(column, texts[field][row].as_py()))

    def _shown(
        self, bad: list[int], malformed: int, texts: Mapping[int, pa.StringArray], converted: list[pa.Array | None]
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


def _can_fail(column: SourceColumn) -> bool:
    return column.type.kind is not Kind.STRING
