"""Converts typed columns to the declared types of a source, a column at a time.

Values of the declared type stay as they are, numbers and bools convert among each other as in JSON, and everything
else converts by its text, as text cells do (`docs/semantics/parquet_avro.md`, "Typed values under declared types").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns, failure_columns, types, values
from spark_jobs.cxl.failure import Category
from spark_jobs.cxl.types import Kind, Type
from spark_jobs.formats import blocks, cell_text, coerce
from spark_jobs.formats.spelling import USUAL
from spark_jobs.formats.typed import spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl.failure_columns import Rows
    from spark_jobs.formats.format import Block, SourceColumn
    from spark_jobs.formats.spelling import Spelling

#: Floats from here on are no ints of 64 bits.
_TOO_LARGE = float(1 << 63)

#: Values of any kind that are neither texts nor arrays.
_ODD = r'^[^"\[]'

#: A column as a file has it.
Found = tuple[pa.Array, Type]


@dataclass(frozen=True)
class Refusals:
    """Invalid values of a column. A record with an invalid value fails if the column is declared.

    Args:
        texts: the invalid value of each record as a text; null for all other records.
        before: the words of the message before this text.
    """

    texts: pa.StringArray
    before: str

    @property
    def rows(self) -> Rows:
        """The numbers of the records that have such a text."""
        return _rows(self.texts.is_valid())

    def reason(self, column: SourceColumn) -> failure_columns.Reason:
        """The reason for which these records fail at a column."""
        category = Category.REQUIRED_CONVERSION if column.required else Category.TYPE_COERCION
        return failure_columns.Reason(category, column.name, self.before, "")


NONE_REFUSED: Mapping[int, Refusals] = MappingProxyType({})


class TypedShape(blocks.Shape[Found]):
    """Converts the typed columns of a file to the columns that its source declares."""

    _refused: Mapping[int, Refusals] = NONE_REFUSED

    def block(
        self, first: int, count: int, found: Mapping[int, Found], refused: Mapping[int, Refusals] = NONE_REFUSED
    ) -> Block:
        """The block of some records.

        Args:
            first: the place of the first record in the split.
            count: how many records there are.
            found: the columns of the file that are needed, by their places.
            refused: the invalid values, by the places of their columns; the columns have null in their place.
        """
        self._refused = refused
        return self.shaped(first, count, found, _Texts(found, refused))

    def convert(self, column: SourceColumn, number: int, found: Found, problems: blocks.Problems) -> pa.Array:
        """A declared column's values; notes the rows that fail."""
        if number in self._refused:
            problems.note(self._refused[number].rows, self._refused[number].reason(column), number)
        array, static = found
        if not column.spelling.is_usual and static.kind is Kind.STRING and not pa.types.is_binary(array.type):
            array = coerce.without_nulls(cast("pa.StringArray", array), column.spelling.null_values)
            done = coerce.convert(array, column.type, self._reading.forms(column), column.spelling)
        else:
            done = convert(array, static, column.type, self._reading.forms(column), column.spelling)
        shown = cell_text.texts(array, static) if static.kind is Kind.DECIMAL and len(done.failed) else array
        for rows, reason in coerce.no_conversions(column, shown, done.failed):
            problems.note(rows, reason, number)
        if column.required and array.null_count:
            problems.note(_rows(array.is_null()), coerce.absence(column), None)
        return done.array

    def undeclared(self, number: int, found: Found) -> pa.StringArray:
        """An undeclared column's values, each with its kind."""
        array = undeclared(*found)
        return (
            pc.coalesce(array, tagged(self._refused[number].texts, types.STRING)) if number in self._refused else array
        )


class _Texts(Mapping[int, pa.StringArray]):
    """The texts of columns, made on demand."""

    def __init__(self, found: Mapping[int, Found], refused: Mapping[int, Refusals]) -> None:
        self._found = found
        self._refused = refused
        self._made: dict[int, pa.StringArray] = {}

    def __getitem__(self, field: int) -> pa.StringArray:
        if field not in self._made:
            array, static = self._found[field]
            texts = _shown_bytes(array) if pa.types.is_binary(array.type) else cell_text.texts(array, static)
            if field in self._refused:
                texts = pc.coalesce(texts, self._refused[field].texts)
            self._made[field] = texts
        return self._made[field]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def convert(
    array: pa.Array, static: Type, wanted: Type, date_formats: tuple[str, ...], spelling: Spelling = USUAL
) -> coerce.Converted:
    """A column under a declared type; a value that does not convert is null and listed.

    The spelling is for texts among values of any kind.
    """
    if pa.types.is_binary(array.type):
        return _of_bytes(array)
    if wanted.is_dynamic and wanted.kind not in (Kind.NUMERIC, Kind.DECIMAL):
        return _containers(undeclared(array, static), wanted.kind)
    if static.kind is wanted.kind is Kind.DECIMAL and not (static.is_dynamic or wanted.is_dynamic):
        assert wanted.scale is not None
        decimal, bad = decimal_columns.lossless(array, wanted.precision, wanted.scale)
        return coerce.Converted(decimal, coerce.NO_ROWS if bad is None else np.flatnonzero(bad))
    match static.kind, wanted.kind:
        case (given, declared) if given is declared and not static.is_dynamic:
            return coerce.Converted(array, coerce.NO_ROWS)
        case (Kind.INT | Kind.FLOAT, Kind.NUMERIC):
            return coerce.Converted(tagged(array, static), coerce.NO_ROWS)
        case (Kind.INT | Kind.BOOL, Kind.FLOAT):
            return coerce.Converted(array.cast(pa.int64()).cast(pa.float64(), safe=False), coerce.NO_ROWS)
        case (Kind.DATE, Kind.DATETIME):
            return coerce.Converted(array.cast(pa.timestamp("us")), coerce.NO_ROWS)
        case (Kind.DATETIME, Kind.DATE):
            return coerce.Converted(array.cast(pa.date32(), safe=False), coerce.NO_ROWS)
        case (Kind.BOOL, Kind.INT):
            return coerce.Converted(array.cast(pa.int64()), coerce.NO_ROWS)
        case (Kind.INT, Kind.BOOL):
            return coerce.Converted(pc.not_equal(array, 0), coerce.NO_ROWS)
        case (Kind.FLOAT, Kind.INT):
            is_int = pc.and_(pc.equal(pc.trunc(array), array), pc.less(pc.abs(array), _TOO_LARGE))
            failed = _rows(pc.fill_null(pc.invert(is_int), False))
            return coerce.Converted(pc.cast(pc.if_else(is_int, array, None), pa.int64()), failed)
    if static.is_dynamic and wanted.kind is not Kind.STRING and pc.any(pc.match_substring_regex(array, _ODD)).as_py():
        return _one_by_one(array, wanted, date_formats, spelling)
    return coerce.convert(cell_text.texts(array, static), wanted, date_formats)


def _of_bytes(array: pa.Array) -> coerce.Converted:
    """Binary values as texts; bytes that are not UTF-8 fail."""
    try:
        return coerce.Converted(array.cast(pa.string()), coerce.NO_ROWS)
    except pa.ArrowInvalid:
        shown = _shown_bytes(array)
        is_text = pc.equal(shown.cast(pa.binary()), array)
        return coerce.Converted(pc.if_else(is_text, shown, None), _rows(pc.fill_null(pc.invert(is_text), False)))


def _shown_bytes(array: pa.Array) -> pa.StringArray:
    """Bytes as texts, with a replacement for undecodable ones."""
    return pa.array(
        [None if each is None else each.decode(errors="replace") for each in array.to_pylist()], pa.string()
    )


def _one_by_one(array: pa.Array, wanted: Type, date_formats: tuple[str, ...], spelling: Spelling) -> coerce.Converted:
    """Values of several kinds, each as in a column of its kind."""
    found = values.from_arrow(array, types.ANY)
    of_kind: dict[Kind, list[int]] = {}
    for row, value in enumerate(found):
        if value is not None:
            of_kind.setdefault(values.kind_of(value), []).append(row)
    parts, index = [], np.full(len(found), -1, dtype=np.int64)
    failed: list[int] = []
    done = 0
    for kind, rows in of_kind.items():
        if kind in (Kind.ARRAY, Kind.MAP):
            texts = cell_text.texts(array.take(pa.array(rows, pa.int64())), types.ANY)
            part = coerce.convert(texts, wanted, date_formats)
        elif kind is Kind.STRING and not spelling.is_usual:
            texts = pa.array([found[row] for row in rows], pa.string())
            part = coerce.convert(coerce.without_nulls(texts, spelling.null_values), wanted, date_formats, spelling)
        else:
            part = convert(values.to_arrow([found[row] for row in rows], Type(kind)), Type(kind), wanted, date_formats)
        parts.append(part.array)
        failed += [rows[row] for row in part.failed.tolist()]
        index[rows] = np.arange(done, done + len(rows))
        done += len(rows)
    taken = pa.concat_arrays(parts).take(pa.array(index, mask=index < 0))
    return coerce.Converted(taken, np.array(sorted(failed), dtype=np.int64))


def _containers(array: pa.StringArray, wanted: Kind) -> coerce.Converted:
    """Values of any kind under a dynamic type; where that is a container, all others fail."""
    opening = {Kind.ARRAY: "[", Kind.MAP: "{"}.get(wanted)
    if opening is None:
        return coerce.Converted(array, coerce.NO_ROWS)
    is_other = pc.fill_null(pc.invert(pc.starts_with(array, opening)), False)
    failed = _rows(is_other)
    return coerce.Converted(pc.if_else(is_other, None, array) if len(failed) else array, failed)


def undeclared(array: pa.Array, static: Type) -> pa.StringArray:
    """A column of a file as values of any kind hold it: Decimals are texts unless they are declared."""
    if static.kind is Kind.DECIMAL:
        array, static = cell_text.texts(array, static), types.STRING
    return tagged(array, static)


def tagged(array: pa.Array, static: Type) -> pa.StringArray:
    """A column as values of any kind hold it (`values.encode`)."""
    if static.is_dynamic:
        assert isinstance(array, pa.StringArray)
        return array
    if static.kind is Kind.ARRAY:
        return pa.array(map(values.encode, values.from_arrow(array, static)), pa.string())
    return spelling.tagged(array)


def _rows(mask: pa.BooleanArray) -> Rows:
    rows: Rows = pc.indices_nonzero(mask).to_numpy().astype(np.int64)
    return rows
