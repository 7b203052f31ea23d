"""JSON objects to typed records, one by one: this defines the meaning of JSON in sources (`docs/semantics/json.md`).

`formats/json/fast/` gives the same results for the records that it takes, and leaves all others to this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimals, types, values
from spark_jobs.cxl import failure_columns as columnar
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import blocks, coerce, format, misread
from spark_jobs.formats.json.exact import objects
from spark_jobs.formats.json.texts import decoding
from spark_jobs.formats.records import malformed, scatter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_jobs.cxl.failure import Failure
    from spark_jobs.formats.format import Block, Reading, SourceColumn

#: The type of undeclared values: in JSON, each value has its own type.
UNDECLARED_TYPE = types.ANY

#: A record, or the failure of a malformed one, whose row is not known yet.
Item = dict[str, Any] | RowFailure


class ExactRecords:
    """Makes the columns of a source of JSON objects."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._undeclared = objects.Undeclared([column.key for column in reading.columns])
        carried = [column.key for column in reading.columns if reading.carries(column.name)]
        self._dotted = [name for name in (*carried, *reading.undeclared) if "." in name]

    def block(self, first: int, items: Sequence[Item], places: Sequence[int] | None = None) -> Block:
        """The block of some records.

        Args:
            first: the place of the first record in the split.
            items: the records, and the failures of malformed ones.
            places: the place of each record, ascending, where they are no neighbours.
        """
        places = range(first, first + len(items)) if places is None else places
        failures: dict[int, Failure] = {}
        records: list[dict[str, Any]] = []
        rows: list[int] = []
        for row, item in zip(places, items, strict=True):
            if isinstance(item, dict):
                records.append(item)
                rows.append(row)
            else:
                failures[row] = item.failure
        declared = [self._column(column, records, rows, failures) for column in self._reading.columns]

        def as_read(position: int, chosen: pa.Array) -> pa.StringArray:
            key = self._reading.columns[position].key
            found = (None if row is None else objects.find(records[row], key) for row in chosen.to_pylist())
            return pa.array([None if value is None else decoding.raw_text(value) for value in found], pa.string())

        bad = blocks.Bad()
        if failures:
            found = columnar.of([RowFailure(row, failures[row]) for row in sorted(failures)])
            failing = [at for at, row in enumerate(rows) if row in failures]
            bad = blocks.Bad(found, np.array(failing, dtype=np.int64), as_read)
        undeclared, well_formed = self._undeclared_arrays(records), np.array(rows, dtype=np.int64)
        made = blocks.block(self._reading, first, len(items), declared, undeclared, well_formed, bad)
        made.doubled = self._doubled(records, rows)
        return made

    def _doubled(self, records: list[dict[str, Any]], rows: list[int]) -> format.Affected | None:
        """The records in which a key with dots hides the value at a path of the same name."""
        if not self._dotted:
            return None
        found: list[int] = []
        first = ""
        for row, record in zip(rows, records, strict=True):
            if objects.has_dotted_key(record):
                name = next((name for name in self._dotted if objects.is_doubled(record, name)), None)
                if name is not None:
                    found.append(row)
                    first = first or name
        return format.Affected(np.array(found, dtype=np.int64), first) if found else None

    def _column(
        self, column: SourceColumn, records: list[dict[str, Any]], rows: list[int], failures: dict[int, Failure]
    ) -> pa.Array:
        """The values of a declared column, null where a record fails; notes the first failure of each record."""
        found = _members(records, column.key)
        if not column.spelling.is_usual:
            found = self._in_usual_spelling(column, found, rows, failures)
        if column.required:
            for row, value in zip(rows, found, strict=True):
                if value is None and row not in failures:
                    failures[row] = coerce.absence_of(column)
        formats = self._reading.forms(column)
        usual = _usual_column(found, column.type, formats)
        if usual is not None:
            for index in usual.failed:
                failures.setdefault(rows[index], coerce.failure_of(column, found[index]))
            return usual.array
        converted: list[Any] = []
        for value, row in zip(found, rows, strict=True):
            try:
                converted.append(None if value is None else _declared(value, column.type, formats))
            except ValueError:
                failures.setdefault(row, coerce.failure_of(column, decoding.raw_text(value)))
                converted.append(None)
        return values.to_arrow(converted, column.type)

    @staticmethod
    def _in_usual_spelling(
        column: SourceColumn, found: list[Any], rows: list[int], failures: dict[int, Failure]
    ) -> list[Any]:
        """Convert texts of a column with a spelling of its own to the usual one; texts that do not fit it fail."""
        usual: list[Any] = []
        for value, row in zip(found, rows, strict=True):
            try:
                usual.append(column.spelling.usual(value, column.type.kind) if type(value) is str else value)
            except ValueError:
                failures.setdefault(row, coerce.failure_of(column, value))
                usual.append(None)
        return usual

    def _undeclared_arrays(self, records: list[dict[str, Any]]) -> list[pa.StringArray]:
        """The undeclared columns that are carried: values of any kind."""
        if not self._reading.undeclared:
            return []
        found: dict[str, tuple[list[int], list[Any]]] = {}
        for at, record in enumerate(records):
            for name, value in self._undeclared.values(record).items():
                places, leaves = found.setdefault(name, ([], []))
                places.append(at)
                leaves.append(decoding.plain(value))
        nothing = pa.nulls(len(records), pa.string())
        arrays = []
        for name in self._reading.undeclared:
            if name not in found:
                arrays.append(nothing)
                continue
            places, leaves = found[name]
            texts = cast("pa.StringArray", values.to_arrow(leaves, UNDECLARED_TYPE))
            arrays.append(scatter(texts, np.array(places, np.int64), len(records)))
        return arrays


def _declared(value: Any, static: types.Type, formats: tuple[str, ...]) -> Any:
    """A value under a declared type.

    Raises:
        ValueError: it does not convert.
    """
    found = decoding.convert(value, static.kind, formats)
    if static.kind is Kind.DECIMAL:
        found = decimals.declared(found, static.precision, static.scale)
        if found is None:
            raise ValueError(decoding.raw_text(value))
    return found


def _members(records: list[dict[str, Any]], name: str) -> list[Any]:
    if "." in name:
        return [objects.find(record, name) for record in records]
    return [record.get(name) for record in records]


def _usual_column(found: list[Any], static: types.Type, date_formats: tuple[str, ...]) -> coerce.Converted | None:
    """A column whose values all have the JSON kind that goes with its type, as an array; None for other columns.

    Dates are texts in JSON, so their column is converted like a column of cells.
    """
    classes = set(map(type, found)) - {type(None)}
    match static.kind:
        case Kind.STRING if classes <= {str}:
            return coerce.Converted(pa.array(found, pa.string()), coerce.NO_ROWS)
        case Kind.BOOL if classes <= {bool}:
            return coerce.Converted(pa.array(found, pa.bool_()), coerce.NO_ROWS)
        case Kind.DATE | Kind.DATETIME if classes <= {str}:
            return coerce.convert(pa.array(found, pa.string()), static, date_formats)
        case Kind.INT if classes <= {int}:
            return _without_overflow(found, pa.int64())
        case Kind.FLOAT if classes <= {int, decoding.Number}:
            return _without_overflow(found, pa.float64())
        case _:
            return None


def _without_overflow(found: list[Any], kind: pa.DataType) -> coerce.Converted | None:
    """Numbers as an array, unless one is larger than its type allows."""
    try:
        numbers = [None if value is None else float(value) for value in found] if kind == pa.float64() else found
        array = pa.array(numbers, kind)
    except (OverflowError, pa.ArrowInvalid):
        return None
    if kind == pa.float64() and not pc.all(pc.is_finite(array), min_count=0).as_py():
        return None
    return coerce.Converted(array, coerce.NO_ROWS)


def of_lines(lines: Sequence[bytes], encoding: str) -> Iterable[Item]:
    """The records of lines, none of which is blank; a line that is not an object is a malformed record."""
    objects: Iterable[Item] | None = decoding.parse_objects(lines)
    return (_of_line(line, encoding) for line in lines) if objects is None else objects


def _of_line(line: bytes, encoding: str) -> Item:
    try:
        value = decoding.parse(line.decode())
    except UnicodeDecodeError:
        return RowFailure(0, malformed(misread.undecodable(encoding), line))
    except ValueError as problem:
        return RowFailure(0, malformed(f"broken JSON: {decoding.words(problem)}", line))
    return value if isinstance(value, dict) else RowFailure(0, malformed("line is no object", line))


def of_value(value: Any) -> Item:
    """The record that an element of an array is."""
    if isinstance(value, dict):
        return value
    return RowFailure(0, malformed("element is no object", decoding.raw_text(value)))
