"""Decodes workbooks in a process of its own (`formats/isolated/`), whose memory is bounded however far they unpack.

A batch has the records of one sheet: its number, the rows, and an array of values for each required column. The array's
name has the type of the values and the column: `int:3` is the fourth one. A column of texts, `error:3`, has the errors
of its cells. A last batch reports values in columns without a name.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values
from spark_jobs.formats.excel import cells, moments, numbers, ranges
from spark_jobs.formats.excel.moments import Kind
from spark_jobs.formats.excel.workbook import Workbook
from spark_jobs.formats.isolated.program import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date, datetime

    from spark_jobs.formats.excel.cells import CellBatch, Column
    from spark_jobs.formats.excel.workbook import Sheet
    from spark_jobs.formats.isolated.program import RemoteFile

#: A name of a column is no longer.
_MOST_NAME = 1 << 15
_TRUE = ("1", "true")
#: The names of columns whose values all have one class.
_ALONE = (("date", "date", types.DATE), ("moment", "datetime", types.DATETIME), ("text", "str", types.STRING))


class Decoder:
    """A workbook; see `isolated.program.Decoder`. `settings` are the options of the source, as JSON."""

    schema: pa.Schema | None = None

    def __init__(self, file: RemoteFile, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._book = Workbook(file)
        self._lookup = cells.Lookup(self._text, self._book.kinds, self._book.digits)
        self._shared: list[str] = []
        self._more = self._book.texts()
        self._times: dict[tuple[str, Kind], date | datetime | str | None] = {}
        sheet, self._range = self._book.cells(settings["range"])
        self._sheets = _chosen(self._book.sheets, settings["sheets"], sheet)
        self._heads = [self._head(one) for one in self._sheets]
        # A workbook begins with more sheets than most people use.
        used = [at for at, (names, _) in enumerate(self._heads) if names] or [0]
        self._sheets, self._heads = [self._sheets[at] for at in used], [self._heads[at] for at in used]
        if not self._heads[0][0]:
            where = f"row {settings['header_row']}" if settings["header_row"] else "any row"
            text = f"has no names of columns in {where} of sheet '{self._sheets[0].name}'"
            raise Refused(f"{text}; give a `header_row` or a `range`")
        self.about: dict[str, Any] = {
            "sheets": [
                {"name": one.name, "columns": [[name, number] for number, name in names.items()]}
                for one, (names, _) in zip(self._sheets, self._heads, strict=True)
            ]
        }

    def _head(self, sheet: Sheet) -> tuple[dict[int, str], int]:
        """The names of a sheet's columns by their numbers, and the number of the row that has them."""
        first = self._range.first_column
        given = dict(enumerate(self._settings["columns"], first))
        if not self._settings["has_header"]:
            return given, 0
        wanted = self._settings["header_row"]
        if wanted is None and self._range.first_row > 1:
            wanted = self._range.first_row
        row, found = self._first_row(sheet, wanted)
        if not found:
            return {}, row
        return {**found, **{number: name for number, name in given.items() if number <= self._range.last_column}}, row

    def _first_row(self, sheet: Sheet, wanted: int | None) -> tuple[int, dict[int, str]]:
        """The first row with a value, or the wanted one: its number, and the texts of its cells."""
        bounds = (
            self._range
            if wanted is None
            else ranges.Range(wanted, self._range.first_column, wanted, self._range.last_column)
        )
        everything = set(range(1, ranges.COLUMNS + 1))
        parser = cells.SheetParser(
            bounds, None, everything, self._lookup,
            outside=cells.Outside(), batch_bytes=1, row_bytes=_MOST_NAME * 1024,
        )  # fmt: skip
        cell_batch = next(parser.batches(self._book.open(sheet.part)), None)
        if cell_batch is None:
            return wanted or 0, {}
        names = {}
        for number, column in sorted(cell_batch.columns.items()):
            if column.rows[0] == 0:
                names[number] = cells.shown(column.kinds[0], column.texts[0], from_1904=self._book.from_1904)
        return cell_batch.rows[0], names

    def _text(self, number: int) -> str:
        """A shared text by its number; reads and keeps all texts up to this one."""
        shared = self._shared
        if number >= len(shared):
            if number < 0:
                raise LookupError
            for text in self._more:
                shared.append(text)
                if number < len(shared):
                    break
        return shared[number]

    def batches(self, wanted: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """The records of all sheets: their columns of some `names`, of some `bytes` at a time."""
        names: list[str] = wanted["names"]
        for at, (sheet, (known, header)) in enumerate(zip(self._sheets, self._heads, strict=True)):
            places = {number: names.index(name) for number, name in known.items() if name in names}
            bounds = ranges.Range(
                max(self._range.first_row, header + 1),
                self._range.first_column,
                self._range.last_row,
                self._range.last_column,
            )
            outside = cells.Outside()
            parser = cells.SheetParser(
                bounds, {*known}, {*places}, self._lookup,
                outside=outside, batch_bytes=wanted["bytes"], row_bytes=wanted["row_bytes"],
            )  # fmt: skip
            for cell_batch in parser.batches(self._book.open(sheet.part)):
                yield self._batch(at, cell_batch, places)
            if outside.count:
                where = [outside.count, f"{ranges.letters_of(outside.first[1])}{outside.first[0]}"]
                columns = [pa.array([at]), pa.array(where[:1]), pa.array(where[1:])]
                yield pa.RecordBatch.from_arrays(columns, names=["sheet", "outside", "cell"])

    def _batch(self, sheet: int, cell_batch: CellBatch, places: dict[int, int]) -> pa.RecordBatch:
        count = len(cell_batch.rows)
        names, arrays = ["sheet", "row"], [pa.repeat(sheet, count), pa.array(cell_batch.rows, pa.int64())]
        for number, column in cell_batch.columns.items():
            for kind, array in self._arrays(column, count):
                names.append(f"{kind}:{places[number]}")
                arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _arrays(self, column: Column, count: int) -> Iterator[tuple[str, pa.Array]]:
        """The arrays of a column with their names: values, kinds of values, and errors of cells."""
        errors: list[tuple[int, str]] = []
        kind, array, rows = self._values(column, errors)
        if len(rows):
            yield kind, _spread(array, rows, count)
        if errors:
            yield "error", _spread(pa.array([word for _, word in errors]), [row for row, _ in errors], count)

    def _values(self, column: Column, errors: list[tuple[int, str]]) -> tuple[str, pa.Array, Sequence[int]]:
        """The values of a column that are no errors, and in which rows they are."""
        kinds = set(column.kinds)
        if kinds == {Kind.TEXT}:
            return "text", pa.array(column.texts, pa.string()), column.rows
        if kinds == {Kind.NUMBER}:
            texts = pa.array(column.texts, pa.string())
            if pc.all(pc.match_substring_regex(texts, numbers.SHORT_INT)).as_py():
                return "int", texts.cast(pa.int64()), column.rows
            if pc.all(pc.match_substring_regex(texts, numbers.NUMBER)).as_py():
                return "number", texts, column.rows
        if kinds == {Kind.BOOL}:
            return "bool", pa.array([text in _TRUE for text in column.texts], pa.bool_()), column.rows
        found, rows = [], []
        for row, text, kind in zip(column.rows, column.texts, column.kinds, strict=True):
            value = self._value(text, kind)
            if value is None:
                errors.append((row, text if kind is Kind.ERROR else _unfit(text, kind)))
            else:
                found.append(value)
                rows.append(row)
        for name, one, static in _ALONE:
            if all(type(value).__name__ == one for value in found):
                return name, values.to_arrow(found, static), rows
        return "any", values.to_arrow(found, types.ANY), rows

    def _value(self, text: str, kind: Kind) -> Any:
        """The value of a cell; None for errors, and for values of another kind."""
        match kind:
            case Kind.TEXT:
                return text
            case Kind.NUMBER:
                return numbers.value_of(text) if _NUMBER.match(text) else None
            case Kind.BOOL:
                return text in _TRUE
            case Kind.ERROR:
                return None
            case Kind.ISO:
                return moments.of_iso(text)
        if (text, kind) not in self._times:
            if len(self._times) > 1 << 16:
                self._times.clear()
            self._times[text, kind] = self._time(text, kind)
        return self._times[text, kind]

    def _time(self, text: str, kind: Kind) -> date | datetime | str | None:
        number = float(text) if _NUMBER.match(text) else math.nan
        if not math.isfinite(number):
            return None
        try:
            return moments.value_of(number, kind, from_1904=self._book.from_1904)
        except moments.Unknown:
            return None


_NUMBER = re.compile(numbers.NUMBER, re.ASCII)


def _unfit(text: str, kind: Kind) -> str:
    what = {Kind.NUMBER: "number", Kind.ISO: "date"}.get(kind, "day that a calendar has")
    return f"{text[:40]}, which is no {what}"


def _spread(array: pa.Array, rows: Sequence[int], count: int) -> pa.Array:
    """Values at their rows, nulls in others."""
    if len(rows) == count:
        return array
    index: list[int | None] = [None] * count
    for at, row in enumerate(rows):
        index[row] = at
    return array.take(pa.array(index, pa.int64()))


def _chosen(sheets: Sequence[Sheet], patterns: Sequence[str], named: str | None) -> list[Sheet]:
    """The sheets that are read, in the order of the options.

    Raises:
        Refused: there is none of some name.
    """
    if named is not None and not patterns:
        patterns = [named]
    if not patterns:
        return [next((sheet for sheet in sheets if sheet.is_visible), sheets[0])]
    found: dict[str, Sheet] = {}
    for pattern in patterns:
        # No sheet has a star in its name, and letters differ in case alone nowhere.
        fits = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.IGNORECASE | re.DOTALL)
        matching = [sheet for sheet in sheets if fits.fullmatch(sheet.name)]
        if not matching:
            known = ", ".join(f"'{sheet.name}'" for sheet in sheets)
            raise Refused(f"has no sheet '{pattern}'; it has {known}")
        found.update((sheet.name, sheet) for sheet in matching)
    return [*found.values()]
