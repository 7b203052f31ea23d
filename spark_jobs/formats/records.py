"""Converts text fields of records into columns, for formats whose fields are texts: empty and absent cells included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import blocks, coerce, format

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from spark_jobs.cxl.failure_columns import Failures, Reason, Rows
    from spark_jobs.formats.format import Block, FileColumns, Reading, SourceColumn


class RecordShape(blocks.Shape["pa.StringArray"]):
    """Converts the text fields of a file's records to the columns of its source.

    Args:
        reading: the requirements for reading the files.
        columns: which field feeds which column.
        has_nulls: whether an empty cell is null in columns of texts too, where it else is the empty text.
        ready: fields that are no texts but values of their columns' types already.
    """

    def __init__(
        self, reading: Reading, columns: FileColumns, *, has_nulls: bool = False, ready: Collection[int] = ()
    ) -> None:
        super().__init__(reading, columns)
        self._has_nulls = has_nulls
        self._ready = frozenset(ready)
        self._absent: Mapping[int, np.ndarray] = {}
        self.needed = self._fields_needed()

    def _fields_needed(self) -> list[int]:
        """The fields to read: fields that are carried or can fail, and every field if failures are shown."""
        reading = self._reading
        fields = {field for field in self._undeclared if field is not None}
        for column, field in zip(reading.columns, self._declared, strict=True):
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
    ) -> Block:
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
        return self.shaped(first, count, texts, texts, rows, malformed)

    def convert(self, column: SourceColumn, number: int, found: pa.StringArray, problems: blocks.Problems) -> pa.Array:
        """A declared column's values; notes the rows that fail."""
        text, nulls = found, column.spelling.null_values
        array: pa.Array = text
        if number not in self._ready:
            if column.type.kind is Kind.STRING:
                array = text = self._texts(text, number, nulls)
            else:
                text = coerce.without_nulls(text, nulls)
                done = coerce.convert(text, column.type, self._reading.forms(column), column.spelling)
                for rows, reason in coerce.no_conversions(column, text, done.failed):
                    problems.note(rows, reason, number)
                array = done.array
        if column.required and text.null_count and self._can_fail(column):
            missing = pc.indices_nonzero(pc.is_null(text)).to_numpy().astype(np.int64)
            if (absent := self._absent.get(number)) is not None:
                missing = missing[~absent[missing]]
            problems.note(missing, coerce.absence(column), None)
        return array

    def undeclared(self, number: int, found: pa.StringArray) -> pa.StringArray:
        """An undeclared column's texts."""
        return self._texts(found, number, self._reading.null_values)

    def _texts(self, text: pa.StringArray, number: int, null_values: tuple[str, ...]) -> pa.StringArray:
        """Texts as columns have them: an empty cell is the empty text, unless it is a word for nothing."""
        if self._has_nulls or not text.null_count:
            return coerce.without_nulls(text, null_values)
        filled: pa.StringArray = coerce.without_nulls(pc.fill_null(text, ""), null_values)
        absent = self._absent.get(number)
        if absent is None:
            return filled
        return pc.replace_with_mask(filled, pa.array(absent), pa.scalar(None, pa.string()))


def scatter(array: pa.StringArray, places: np.ndarray, count: int) -> pa.StringArray:
    """Put texts at the places of their records; other records get null."""
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
    """The failure of a record with a broken structure, with the beginning of its text."""
    head = raw[: format.RAW_TEXT_LIMIT * 4]
    text = head if isinstance(head, str) else head.decode("utf-8", "replace")
    return Failure(_malformed(detail), Category.MALFORMED, text[: format.RAW_TEXT_LIMIT].rstrip("\r\n"))


def malformed_reason(detail: str) -> Reason:
    """The common reason of many such records."""
    return failure_columns.Reason(Category.MALFORMED, None, _malformed(detail))


def _malformed(detail: str) -> str:
    return f"malformed record: {detail}"
