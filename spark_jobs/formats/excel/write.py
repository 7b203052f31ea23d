"""Batches to Excel workbooks: cells by columns, rows of them as the XML of a sheet.

A cell has a value of its column's type. A value that a spreadsheet would round or cannot hold becomes a text: whole
numbers and Decimals of more than 15 digits, days before 1900, moments with parts of a millisecond, NaN and infinities.
"""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns, values
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.types import ANY, BOOL, DATE, DATETIME, FLOAT, INT, STRING, Kind, decimal_of
from spark_jobs.formats import cell_text, format
from spark_jobs.formats.excel import package, ranges
from spark_jobs.formats.typed import counterparts
from spark_jobs.formats.typed.write import TypedWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.excel.options import ExcelWrite

#: A cell has no more characters than these, counted as UTF-16 does.
MOST_TEXT = 32_767
#: Spreadsheets keep so many digits of a number.
_DIGITS = 15
#: The numbers of rows and of cells that are encoded as XML at a time.
_STEP_ROWS, _STEP_CELLS = 1 << 13, 1 << 19
_MOST_WIDTH = 60
_DAY_US = 86_400_000_000
#: The number of 1970-01-01, and of the first day after a 29 February 1900 that only spreadsheets have: the days before
#: it are numbered one less.
_EPOCH, _MARCH_1900 = 25_569, 61
#: The types of values that have cells of their own.
_KINDS = {bool: BOOL, int: INT, float: FLOAT, date: DATE, datetime: DATETIME}
#: Characters that XML has no place for, or does not keep, and texts that look as if they were escaped.
_ODD = r"[\x00-\x08\x0b-\x1f\x{fffe}\x{ffff}]|_x[0-9A-Fa-f]{4}_"
_ODD_CHARACTER = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


class ExcelWriter(TypedWriter):
    """Writes workbooks.

    Args:
        schema: the columns.
        options: `options:` of the output.
        include_header: whether the first row has the names of the columns.
    """

    _options: ExcelWrite

    def __init__(self, schema: Schema, options: ExcelWrite, *, include_header: bool) -> None:
        super().__init__(schema, options)
        self._include_header = include_header

    def _arrow_type(self, static: Type) -> pa.DataType:
        """Arrays are texts; values of any kind keep their kind until they are cells."""
        return pa.string() if static.is_dynamic or static.kind is Kind.ARRAY else counterparts.of(static)

    def converted(self, column: Column, array: pa.Array, failures: list[RowFailure]) -> pa.Array:
        """A column as the messages have it: arrays are texts of JSON, values of any kind as they are."""
        if column.type.kind is Kind.ARRAY and not column.type.is_dynamic:
            return cell_text.texts(array, column.type)
        return array.cast(self._arrow_type(column.type))

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> format.Encoded:
        """See `TypedWriter.encode`."""
        names = [column.name for column in self._columns]
        if len(names) > ranges.COLUMNS:
            raise format.UnwritableFile(
                f"a sheet has no more than {ranges.COLUMNS:,} columns; these are {len(names):,}"
            )
        if self._include_header and (long := [name for name in names if _size(name) > MOST_TEXT]):
            raise format.UnwritableFile(
                f"a cell has no more than {MOST_TEXT:,} characters; a column is named '{long[0][:40]}…'"
            )
        return super().encode(batch, ends=ends)

    def _refused(self, found: pa.RecordBatch) -> Iterator[RowFailure]:
        """The records with a text that is too long for a cell."""
        for column, array in zip(self._columns, found.columns, strict=True):
            if not pa.types.is_string(array.type):
                continue
            # No text has more characters than bytes.
            long = pc.indices_nonzero(pc.fill_null(pc.greater(pc.binary_length(array), MOST_TEXT), False))
            shown = _texts(column.type, array.take(long)).to_pylist()
            for row, text in zip(long.to_pylist(), shown, strict=True):
                if (size := _size(text)) > MOST_TEXT:
                    detail = f"column '{column.name}': {size:,} characters; a cell has no more than {MOST_TEXT:,}"
                    failure = Failure(detail, value=text[: format.RAW_TEXT_LIMIT], field=column.name)
                    yield RowFailure(row, failure)

    def _opened(self, sink: IO[bytes], schema: pa.Schema) -> Workbook:
        return Workbook(
            sink, [(one.name, one.type) for one in self._columns], self._options.sheet, self._include_header
        )

    def show(self, source: IO[bytes], *, moved: bool = False) -> bytes:
        """The records in a stream as lines of JSON, for people."""
        lines = []
        for batch in self.batches(source, moved=moved):
            columns = [_shown(column.type, array) for column, array in zip(self._columns, batch.columns, strict=True)]
            for row in zip(*columns, strict=True):
                record = dict(zip(batch.schema.names, row, strict=True))
                lines.append(json.dumps(record, ensure_ascii=False, default=str) + "\n")
        return "".join(lines).encode()


class Workbook:
    """A workbook on its way, which gets tables of records.

    Args:
        sink: where it goes.
        columns: their names and types.
        sheet: the name of the sheet.
        include_header: whether the first row has the names.
        most_rows: how many rows a sheet has at most; records beyond go on in the next one.
    """

    def __init__(
        self,
        sink: IO[bytes],
        columns: list[tuple[str, Type]],
        sheet: str,
        include_header: bool,
        *,
        most_rows: int = ranges.ROWS,
    ) -> None:
        self._sink = sink
        self._columns = columns
        self._sheet = sheet
        self._most_rows = most_rows
        self._step_rows = max(min(_STEP_ROWS, _STEP_CELLS // max(len(columns), 1)), 1)
        self._letters = [ranges.letters_of(number) for number in range(1, len(columns) + 1)]
        self._header = b""
        if include_header:
            names = pa.array([name for name, _ in columns], pa.string())
            cells = _text_cells(pa.array(self._letters), pa.array(["1"] * len(columns)), names, package.NAME)
            self._header = "".join(cells.to_pylist()).encode()
        self._package: package.Package | None = None

    def write_table(self, table: pa.Table) -> None:
        """Write some records. The first table decides how wide the columns are."""
        found = self._started(table)
        at = 0
        while at < table.num_rows:
            if not found.room:
                found.next_sheet()
            part = table.slice(at, min(self._step_rows, found.room)).combine_chunks()
            found.write(self._rows(part, found.rows + 1), part.num_rows)
            at += part.num_rows

    def close(self) -> None:
        """Write the rest of the workbook."""
        self._started(None).close()

    def _started(self, table: pa.Table | None) -> package.Package:
        if self._package is None:
            widths = [
                _width(name, static, None if table is None else table.column(at).slice(0, _STEP_ROWS).combine_chunks())
                for at, (name, static) in enumerate(self._columns)
            ]
            self._package = package.Package(self._sink, self._sheet, self._header, widths, most_rows=self._most_rows)
        return self._package

    def _rows(self, table: pa.Table, first: int) -> bytes:
        numbers = pc.cast(pa.array(range(first, first + table.num_rows), pa.int64()), pa.string())
        parts: list[pa.Array] = [pc.binary_join_element_wise('<row r="', numbers, '">', "")]
        for letter, (_, static), column in zip(self._letters, self._columns, table.columns, strict=True):
            array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            parts.append(_cells(letter, numbers, static, array))
        parts.append(pa.repeat("</row>", table.num_rows))
        return cell_text.characters(pc.binary_join_element_wise(*parts, ""))


def _cells(letter: str, rows: pa.Array, static: Type, column: pa.Array) -> pa.Array:
    """The cells of a column, as XML; empty for nulls."""
    if static.is_dynamic:
        found = _of_any_kind(letter, rows, column)
    else:
        match static.kind:
            case Kind.BOOL:
                found = _numbers(letter, rows, pc.if_else(column, "1", "0"), package.GENERAL, kind="b")
            case Kind.INT:
                found = _exact(letter, rows, pc.cast(column, pa.string()), package.WHOLE)
            case Kind.DECIMAL:
                found = _exact(letter, rows, decimal_columns.texts(column), _places(static.scale or 0))
            case Kind.FLOAT:
                found = _floats(letter, rows, column)
            case Kind.DATE | Kind.DATETIME:
                found = _moments(letter, rows, static, column)
            case _:
                found = _text_cells(letter, rows, column)
    return pc.fill_null(found, "")


def _numbers(letter: str, rows: pa.Array, texts: pa.Array, style: int, kind: str = "n") -> pa.Array:
    return pc.binary_join_element_wise(f'<c r="{letter}', rows, f'" s="{style}" t="{kind}"><v>', texts, "</v></c>", "")


def _exact(letter: str, rows: pa.Array, texts: pa.Array, style: int) -> pa.Array:
    """Numbers with all their digits; a number with more digits than a spreadsheet keeps becomes a text."""
    digits = pc.utf8_ltrim(pc.replace_substring_regex(texts, "[-.]", ""), "0")
    is_kept = pc.less_equal(pc.binary_length(digits), _DIGITS)
    return pc.if_else(is_kept, _numbers(letter, rows, texts, style), _text_cells(letter, rows, texts))


def _floats(letter: str, rows: pa.Array, column: pa.Array) -> pa.Array:
    """Numbers by their shortest digits; NaN and infinities are texts."""
    texts: pa.Array = pc.cast(column, pa.string())
    texts = pc.if_else(pc.equal(texts, "-0"), "-0.0", texts)
    numbers = _numbers(letter, rows, texts, package.GENERAL)
    is_finite = pc.is_finite(column)
    if pc.all(is_finite, min_count=0).as_py():
        return numbers
    return pc.if_else(is_finite, numbers, _text_cells(letter, rows, cell_text.texts(column, FLOAT)))


def _moments(letter: str, rows: pa.Array, static: Type, column: pa.Array) -> pa.Array:
    """Days and moments as numbers of days; a value that no such number holds exactly becomes a text."""
    is_valid = column.is_valid()
    if static.kind is Kind.DATE:
        days = pc.fill_null(column.cast(pa.int32()), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        rest = np.zeros(len(days), np.int64)
        style: Any = f'" s="{package.DAY}" t="n"><v>'
    else:
        microseconds = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        days, rest = np.divmod(microseconds, _DAY_US)
        styles = (f'" s="{style}" t="n"><v>' for style in (package.MOMENT_MS, package.MOMENT))
        style = pc.if_else(pa.array(rest % 1_000_000 != 0), *styles)
    numbers = days + _EPOCH
    numbers -= numbers < _MARCH_1900
    texts = pc.cast(pa.array(numbers + rest / _DAY_US), pa.string())
    cells: pa.Array = pc.binary_join_element_wise(f'<c r="{letter}', rows, style, texts, "</v></c>", "")
    is_kept = pa.array((numbers >= 1) & (rest % 1000 == 0))
    if not pc.all(is_kept, min_count=0).as_py():
        cells = pc.if_else(is_kept, cells, _text_cells(letter, rows, cell_text.texts(column, static)))
    return pc.if_else(is_valid, cells, pa.scalar(None, pa.string()))


def _text_cells(letters: Any, rows: pa.Array, texts: pa.Array, style: int = package.GENERAL) -> pa.Array:
    start = f'" s="{style}" t="inlineStr"><is><t xml:space="preserve">'
    return pc.binary_join_element_wise('<c r="', letters, rows, start, _escaped(texts), "</t></is></c>", "")


def _escaped(texts: pa.Array) -> pa.Array:
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        texts = pc.replace_substring(texts, sign, name)
    is_odd = pc.fill_null(pc.match_substring_regex(texts, _ODD), False)
    if pc.any(is_odd, min_count=0).as_py():
        escaped = [_ODD_CHARACTER.sub(_code, text) for text in texts.filter(is_odd).to_pylist()]
        texts = pc.replace_with_mask(texts, is_odd, pa.array(escaped, pa.string()))
    return texts


def _code(found: re.Match[str]) -> str:
    return f"_x{ord(found.group()):04X}_"


def _of_any_kind(letter: str, rows: pa.Array, column: pa.Array) -> pa.Array:
    """Values with a kind for each; most become texts."""
    texts = _text_cells(letter, rows, cell_text.texts(column, ANY))
    others = pc.fill_null(pc.invert(pc.starts_with(column, '"')), False)
    if not pc.any(others, min_count=0).as_py():
        return texts
    found = [
        _cell(letter, row, values.decode(text))
        for row, text in zip(rows.filter(others).to_pylist(), column.filter(others).to_pylist(), strict=True)
    ]
    return pc.replace_with_mask(texts, others, pa.array(found, pa.string()))


def _cell(letter: str, row: str, value: Any) -> str:
    """The cell of a value, by the rules of columns."""
    static = _KINDS.get(type(value), STRING)
    if isinstance(value, Decimal):
        static = decimal_of(None, max(-int(value.as_tuple().exponent), 0))
    elif static is STRING and not isinstance(value, str):
        value = values.text_of(value)
    found: str = _cells(letter, pa.array([row]), static, values.to_arrow([value], static))[0].as_py()
    return found


def _places(places: int) -> int:
    """The style of numbers with so many decimal places."""
    if places > package.MOST_PLACES:
        return package.GENERAL
    return package.PLACES + places - 1 if places else package.WHOLE


def _width(name: str, static: Type, column: pa.Array | None) -> int:
    """The width of a column in characters: enough for its name and the first records."""
    longest = len(name)
    if static.kind is Kind.DATETIME and not static.is_dynamic:
        longest = max(longest, len("2026-01-01 00:00:00"))
    elif static.kind is Kind.DATE and not static.is_dynamic:
        longest = max(longest, len("2026-01-01"))
    elif column is not None and len(column):
        longest = max(longest, pc.max(pc.utf8_length(_texts(static, column))).as_py() or 0)
    return min(longest + 2, _MOST_WIDTH)


def _texts(static: Type, column: pa.Array) -> pa.Array:
    """The texts of a column as messages have it; arrays are texts already."""
    if static.kind is Kind.ARRAY and not static.is_dynamic:
        return column
    return cell_text.texts(column, static)


def _shown(static: Type, column: pa.Array) -> list[Any]:
    """The values of a column, for people."""
    return values.from_arrow(column, static) if static.is_dynamic else column.to_pylist()


def _size(text: str) -> int:
    """The number of characters as UTF-16 counts them."""
    return len(text.encode("utf-16-le")) // 2


def open_writer(
    schema: Schema, options: ExcelWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> ExcelWriter:
    """The writer of an output."""
    return ExcelWriter(schema, options, include_header=include_header)
