"""The source that would read an Excel workbook: where the table of its first sheet is, and the types of its cells."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.guess import delimited, table, values
from spark_jobs.cli.guess.dialect import Row, Signs
from spark_jobs.cli.guess.source import Guess
from spark_jobs.cxl import values as cxl_values
from spark_jobs.formats import format
from spark_jobs.formats.excel import ranges
from spark_jobs.formats.isolated import process
from spark_jobs.scan import changes, files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from spark_jobs.stores.location import FilePath

_DECODER = "spark_jobs.formats.excel.decoding"
_MOST_COLUMNS = 1024
_MOST_ROWS = 100_000
_SHOWN_SHEETS = 5
#: The names of cell types.
_TYPES = {bool: "bool", datetime.date: "date", datetime.datetime: "date_time"}


@dataclass
class _Sheet:
    """The rows of a sheet that have a value: their numbers, and the values of their cells by their columns, from 1."""

    name: str
    rows: list[tuple[int, dict[int, Any]]] = field(default_factory=list)
    is_whole: bool = True


def guess(path: FilePath, name: str, *, as_text: bool) -> tuple[Guess, int]:
    """The source that reads a workbook, and how many records were looked at.

    Raises:
        FormatError: it is broken, or none that is read.
    """
    sheet, others = _read(path, name)
    if not sheet.rows:
        raise FormatError("its first visible sheet has no values", name)
    filled = sorted({column for _, cells in sheet.rows for column in cells})
    first_column, last_column = filled[0], filled[-1]
    span = range(first_column, last_column + 1)
    rows = [Row(tuple(_text(cells.get(column)) for column in span), number - 1, number) for number, cells in sheet.rows]
    found = table.of_rows(rows, Signs(), is_end=sheet.is_whole)
    assert found is not None, "there are rows"
    if found.header_rows > 1:
        # Names over several rows are said: a sheet has one header row.
        start = rows.index(found.body[0])
        found.names = table.names_of_groups(rows[start - found.header_rows : start])
        found.is_header_skipped = True
    names, said_names = delimited.names_of(found)
    body = {row.first + 1 for row in found.body}
    records = [cells for number, cells in sheet.rows if number in body]
    columns = [
        _column(column_name, [cells[at] for cells in records if at in cells], len(records))
        for column_name, at in zip(names, span, strict=False)
    ]
    if as_text:
        columns = [values.Column(column.name, is_unique=column.is_unique) for column in columns]
    made = Guess("", [], "excel", _options(found, names, said_names, first_column, last_column), columns)
    made.remarks += [*values.column_notes(columns), *_remarks(found, sheet.name, others, _holes(found))]
    made.doubts += [f"column {values.shown(c.name)}: {r.text}" for c in columns for r in c.remarks if r.is_doubt]
    made.doubts += delimited.totals(found, names, "a `range` that ends above it")
    made.doubts += _another(found)
    return made, len(records)


def _read(path: FilePath, name: str) -> tuple[_Sheet, list[str]]:
    """The first visible sheet, and the names of the others."""
    file = files.describe_named(path, name)
    columns = tuple(f"c{number}" for number in range(1, _MOST_COLUMNS + 1))
    settings: dict[str, Any] = {"range": "", "has_header": False, "header_row": None, "columns": columns}
    with changes.opened(file) as stream, process.opened(stream, name, _DECODER, sheets=("*",), **settings) as session:
        names = [str(each["name"]) for each in session.about["sheets"]]
    with changes.opened(file) as stream, process.opened(stream, name, _DECODER, sheets=(), **settings) as session:
        sheet = _Sheet(str(session.about["sheets"][0]["name"]))
        for batch in session.batches(names=columns, bytes=format.BLOCK_BYTES, row_bytes=format.BLOCK_BYTES):
            if batch.schema.names[1] != "outside":
                sheet.rows += _rows(batch)
            if len(sheet.rows) > _MOST_ROWS:
                sheet.is_whole = False
                break
    return sheet, [other for other in names if other != sheet.name]


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, dict[int, Any]]]:
    """The rows of a batch, each with the values of its cells."""
    found: list[dict[int, Any]] = [{} for _ in range(batch.num_rows)]
    for name, array in zip(batch.schema.names[2:], batch.columns[2:], strict=True):
        kind, _, place = name.partition(":")
        for cells, value in zip(found, array.to_pylist(), strict=True):
            if value is not None:
                cells[int(place) + 1] = _value(kind, value)
    yield from zip(batch.column(1).to_pylist(), found, strict=True)


def _value(kind: str, value: Any) -> Any:
    """A cell's value; numbers as they are written."""
    if kind == "number":
        return _Number(value)
    if kind == "any":
        decoded = cxl_values.decode(value)
        if isinstance(decoded, int) and not isinstance(decoded, bool):
            return _Number(str(decoded))
        return _Number(f"{decoded:.15g}") if isinstance(decoded, float) else decoded
    return _Number(str(value)) if kind == "int" else value


class _Number(str):
    """A number as a workbook has it; texts of digits are none."""

    __slots__ = ()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _column(name: str, cells: list[Any], records: int) -> values.Column:
    """A column with the type that most of its cells have."""
    kinds = Counter(str if isinstance(value, _Number) else type(value) for value in cells)
    others = {kind: count for kind, count in kinds.items() if kind is not str}
    texts = Counter(_text(value) for value in cells)
    is_unique = records > 1 and len(texts) == len(cells) == records
    if others and kinds[str] <= 0.05 * len(cells):
        known = {_TYPES.get(kind, "any") for kind in others}
        if known == {"date", "date_time"}:
            known = {"date_time"}
        column = values.Column(name, known.pop() if len(known) == 1 else "any", is_unique=is_unique)
        words = sorted({_text(value) for value in cells if type(value) is str})
        if words:
            column.notes.append(f"cells such as {values.shown(words[0])} are none: they become dead letters")
        return column
    if not others and cells and all(type(value) is str for value in cells):
        # Texts of digits were written as texts: codes, and numbers that a spreadsheet must not change.
        (column,) = values.guess([(name, texts, records)])
        is_code = column.type == "int"
        return values.Column(name, is_unique=is_unique) if is_code else column
    if others:
        return values.Column(name, is_unique=is_unique, remarks=[_several(kinds)])
    (column,) = values.guess([(name, texts, records)])
    return column


def _several(kinds: Counter[type]) -> values.Remark:
    """Make the remark for a column that has values of several kinds."""
    named = sorted({_TYPES.get(kind, "text or number") for kind in kinds})
    return values.Remark(f"text: values of several kinds: {', '.join(named)}", is_doubt=True)


def _options(
    found: table.Table, names: Iterable[str], said_names: int, first_column: int, last_column: int
) -> dict[str, Any]:
    """The options that differ from their defaults."""
    options: dict[str, Any] = {}
    has_header = found.names is not None and not found.is_header_skipped
    first_row = found.body[0].first + 1 if found.body and not has_header else found.skipped + 1
    is_framed = bool(found.footer) or first_column > 1
    if is_framed or (not has_header and first_row > 1):
        letters = ranges.letters_of(first_column), ranges.letters_of(last_column)
        end = str(found.body[-1].after) if found.footer and found.body else ""
        options["range"] = f"{letters[0]}{first_row}:{letters[1]}{end}"
    elif found.skipped:
        options["header_row"] = first_row
    if not has_header:
        options["has_header"] = False
    elif said_names or len(set(found.names or ())) < len(found.names or ()):
        options["columns"] = list(names)
    return options


def _another(found: table.Table) -> Iterator[str]:
    """Whether the sheet has another table below the first one, and the rows of each."""
    other = table.another(found)
    if other is not None:
        rows = f"a `range` that ends at row {other.above.after} reads this one"
        yield f"{delimited.another_said(other)}: {rows}, and a second source reads from row {other.header.after} on"


def _holes(found: table.Table) -> int:
    """Count the records that lack only the first column, below one that has it: its cells may be merged."""
    if not found.body or not found.body[0].cells[0]:
        return 0
    return sum(not row.cells[0] and all(row.cells[1:]) for row in found.body)


def _remarks(found: table.Table, sheet: str, others: list[str], holes: int) -> Iterator[str]:
    if others:
        more = ", …" if len(others) > _SHOWN_SHEETS else ""
        shown = ", ".join(map(values.shown, others[:_SHOWN_SHEETS]))
        yield f"sheet {values.shown(sheet)} is read; others are {shown}{more} (`sheets`)"
    before = found.titles[: len(found.titles) - found.after]
    if found.skipped and before:
        yield f"{delimited.lines(len(before), 'row')} before the table left out: {delimited.listed(before)}"
    if holes:
        column = values.shown(found.names[0]) if found.names else "the first column"
        rows = delimited.lines(holes, "row")
        yield f"{rows} with nothing in {column}: merged cells have their value in their first row"
    if found.is_header_skipped:
        yield f"the header has {found.header_rows} rows: the names stand in `schema`, and its rows are left out"
    if found.footer:
        left_out = delimited.listed(found.titles[len(before) :])
        yield f"{delimited.lines(found.footer, 'row')} after the table left out (`range` ends above): {left_out}"
