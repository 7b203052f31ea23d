"""Makes blocks of columns and failures, for all formats.

A format converts its columns. This module decides which of them a block has, the names of undeclared columns, which
records are good, and how dead letters show the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns, values
from spark_jobs.formats import cell_text, coerce, format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_jobs.cxl.failure_columns import Failures, Reason, Rows
    from spark_jobs.formats.format import Block, FileColumns, Reading, SourceColumn

    #: Gives the texts of a declared column as read, by its position, for some rows; None if a file lacks the column.
    AsRead = Callable[[int, pa.Array], pa.StringArray | None]

#: A field as a format provides it: texts, or typed values.
Field = TypeVar("Field")


def batch(
    reading: Reading, declared: Sequence[pa.Array | None], undeclared: Sequence[pa.Array], count: int
) -> pa.RecordBatch:
    """The record batch of a block.

    Args:
        reading: the requirements for reading the files.
        declared: the values of each declared column; None where nobody needs it.
        undeclared: the values of each undeclared column that the reading carries.
        count: how many records there are.
    """
    names, arrays = [], []
    for column, array in zip(reading.columns, declared, strict=True):
        if array is not None and reading.carries(column.name):
            names.append(column.name)
            arrays.append(array)
    for name, array in zip(reading.undeclared, undeclared, strict=True):
        names.append(format.UNDECLARED_PREFIX + name)
        arrays.append(array)
    return _of_arrays(arrays, names, count)


def _of_arrays(arrays: Sequence[pa.Array], names: Sequence[str], count: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, names=names)
    # Without columns the number of rows is all there is: a batch of an empty struct keeps it.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


@dataclass(frozen=True)
class Bad:
    """The bad records of a block.

    Args:
        failures: the failures by the places of their records in the split, ascending.
        rows: the rows of the failures among the converted records, ascending. The other failures are of malformed
            records.
        as_read: returns the texts of these rows as read, column by column.
    """

    failures: Failures = field(default_factory=failure_columns.none)
    rows: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    as_read: AsRead = lambda _position, _rows: None


def block(
    reading: Reading,
    first: int,
    count: int,
    declared: Sequence[pa.Array | None],
    undeclared: Sequence[pa.Array],
    places: Rows | None,
    bad: Bad,
) -> Block:
    """The block of some records.

    Args:
        reading: the requirements for reading the files.
        first: the place of the first record in the split.
        count: how many records there are, good and bad.
        declared: the values of each declared column in the well-formed records; None if the column is not needed.
        undeclared: the same of each undeclared column that the reading carries.
        places: the places of the well-formed records; None if all records are well-formed and consecutive.
        bad: the records that fail.
    """
    carried = batch(reading, declared, undeclared, count if places is None else len(places))
    if not len(bad.failures):
        return format.Block(first, count, carried, None if places is None else pa.array(places, pa.int64()))
    if places is None:
        places = np.arange(first, first + count, dtype=np.int64)
    failed_rows = _shown(reading, declared, places, bad) if reading.failure_texts else None
    if len(bad.rows):
        keep = np.delete(np.arange(len(places), dtype=np.int64), bad.rows)
        carried, places = carried.take(pa.array(keep)), places[keep]
    return format.Block(first, count, carried, pa.array(places, pa.int64()), bad.failures, failed_rows)


def _shown(reading: Reading, declared: Sequence[pa.Array | None], places: Rows, bad: Bad) -> pa.RecordBatch:
    """The bad records as dead letters show them, each value in its own text form or as it was read."""
    is_well_formed = np.isin(bad.failures.rows, places[bad.rows])
    rows = np.zeros(len(is_well_formed), dtype=np.int64)
    rows[is_well_formed] = bad.rows
    chosen = pa.array(rows, mask=~is_well_formed)
    arrays: list[pa.Array] = []
    for position, (column, array) in enumerate(zip(reading.columns, declared, strict=True)):
        shown = (
            pa.nulls(len(chosen), pa.string()) if array is None else cell_text.texts(array.take(chosen), column.type)
        )
        if array is not None and shown.null_count:
            is_null = pc.is_null(shown)
            as_read = bad.as_read(position, chosen.filter(is_null))
            shown = shown if as_read is None else pc.replace_with_mask(shown, is_null, as_read)
        arrays.append(shown)
    return _of_arrays(arrays, [column.name for column in reading.columns], len(chosen))


class Problems:
    """The records that some column fails: the first column counts, and why it does."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reasons: list[tuple[Reason, int | None]] = []
        self._reason: Rows | None = None

    def note(self, rows: Rows, reason: Reason, blamed: int | None) -> None:
        """Add records that fail at a column; dead letters show the texts of the field `blamed`."""
        if not len(rows):
            return
        if self._reason is None:
            self._reason = np.full(self.count, -1, dtype=np.int64)
        self._reason[rows[self._reason[rows] < 0]] = len(self.reasons)
        self.reasons.append((reason, blamed))

    @property
    def rows(self) -> Rows:
        """The numbers of the failing rows, ascending."""
        return np.empty(0, dtype=np.int64) if self._reason is None else np.flatnonzero(self._reason >= 0)

    def failures(self, texts: Mapping[int, pa.StringArray], places: Rows) -> Failures:
        """Them with their texts, by their places."""
        found = []
        for number, (reason, blamed) in enumerate(self.reasons):
            rows = np.flatnonzero(self._reason == number)
            of_rows = None if blamed is None else failure_columns.chosen(texts[blamed], rows)
            found.append(failure_columns.alike(rows, reason, of_rows))
        whole = failure_columns.concatenated(found)
        return replace(whole, rows=places[whole.rows])


class Shape(ABC, Generic[Field]):
    """Converts the fields of a file's records to the columns of its source. Formats implement the conversion.

    Args:
        reading: the requirements for reading the files.
        columns: which field feeds which column.
    """

    def __init__(self, reading: Reading, columns: FileColumns) -> None:
        self._reading = reading
        self._declared = columns.declared
        self._undeclared = columns.undeclared if reading.undeclared else ()

    @abstractmethod
    def convert(self, column: SourceColumn, number: int, found: Field, problems: Problems) -> pa.Array:
        """A declared column's values, of the field with a number; notes the rows that fail."""

    @abstractmethod
    def undeclared(self, number: int, found: Field) -> pa.Array:
        """The values of an undeclared column, a row for each record."""

    def shaped(
        self,
        first: int,
        count: int,
        found: Mapping[int, Field],
        texts: Mapping[int, pa.StringArray],
        places: Rows | None = None,
        malformed: Failures | None = None,
    ) -> Block:
        """The block of some records.

        Args:
            first: the place of the first record in the split.
            count: how many records there are, malformed ones included.
            found: the needed fields of all well-formed records.
            texts: the same as they were read.
            places: the places of the well-formed records; None when all records are well-formed.
            malformed: the failures of the others.
        """
        size = count if places is None else len(places)
        problems = Problems(size)
        declared = [
            self._column(column, number, size, found, problems)
            for column, number in zip(self._reading.columns, self._declared, strict=True)
        ]
        undeclared = [
            pa.nulls(size, pa.string()) if number is None else self.undeclared(number, found[number])
            for number in self._undeclared
        ]
        if not problems.reasons and not malformed:
            return block(self._reading, first, count, declared, undeclared, None, Bad())
        known = np.arange(first, first + count, dtype=np.int64) if places is None else places
        failures = problems.failures(texts, known)
        if malformed:
            failures = failure_columns.concatenated([malformed, failures])

        def as_read(position: int, rows: pa.Array) -> pa.StringArray | None:
            number = self._declared[position]
            return None if number is None else texts[number].take(rows)

        bad = Bad(failures, problems.rows, as_read)
        return block(self._reading, first, count, declared, undeclared, known, bad)

    def _column(
        self, column: SourceColumn, number: int | None, size: int, found: Mapping[int, Field], problems: Problems
    ) -> pa.Array | None:
        if number is None:
            if column.required:
                problems.note(np.arange(size), coerce.absence(column), None)
            return pa.nulls(size, values.arrow_type(column.type))
        if number not in found:
            return None
        return self.convert(column, number, found[number], problems)
