"""Reads the cells of a sheet as a stream: the values of some columns, and which rows have any value."""

from __future__ import annotations

from collections import defaultdict
from typing import IO, TYPE_CHECKING

from spark_jobs.formats.excel import moments, ranges, workbook
from spark_jobs.formats.excel.moments import Kind
from spark_jobs.formats.isolated.program import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_jobs.formats.excel.ranges import Range

#: The problem of cells with a formula but no value: the program that wrote them did not calculate.
NO_VALUE = "formula without a value"
_NO_WORD = "#ERROR"
#: A batch has so many records at most.
_MOST_ROWS = 1 << 14
#: What a cell takes beside its text.
_CELL_BYTES = 8


class Column:
    """The values of a column: their rows, texts and kinds."""

    __slots__ = ("kinds", "rows", "texts")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.texts: list[str] = []
        self.kinds: list[Kind] = []


class CellBatch:
    """Some rows that have a value: their numbers in the sheet, and the values of some columns."""

    __slots__ = ("columns", "rows", "size")

    def __init__(self) -> None:
        self.columns: defaultdict[int, Column] = defaultdict(Column)
        self.rows: list[int] = []
        self.size = 0


class Outside:
    """Values in no column that has a name: how many there are, and where the first of them is."""

    def __init__(self) -> None:
        self.count = 0
        self.first = (0, 0)


#: The elements that matter for values.
_NAMES = {name: name for name in ("row", "c", "v", "f", "t", "is", "rPh")}


class _Tags(dict[str, str | None]):
    """The names of elements that matter, by their names with a namespace."""

    def __missing__(self, tag: str) -> str | None:
        self[tag] = name = _NAMES.get(workbook.local(tag))
        return name


def read(
    part: IO[bytes],
    cells: Range,
    named: set[int] | None,
    wanted: set[int],
    texts: Callable[[int], str],
    kinds: Sequence[Kind],
    digits: Sequence[int],
    *,
    outside: Outside,
    most_bytes: int,
    most_row_bytes: int,
) -> Iterator[CellBatch]:
    """The rows of a sheet that have a value, a cell_batch after the other.

    Args:
        part: the part of the file that has the sheet.
        cells: which of its cells count.
        named: the columns that have names; None for all.
        wanted: those whose values are wanted.
        texts: the shared texts by their numbers; raises `LookupError` where there is none.
        kinds: what numbers are, by the style of their cell.
        digits: how many digits they have that are codes, by the same; empty if none are.
        outside: takes what is in other columns.
        most_bytes: how much makes a cell_batch.
        most_row_bytes: how much a row may have.

    Raises:
        Refused: the sheet is broken.
        MemoryError: a row has more.
    """
    tags = _Tags()
    letters: dict[str, int] = {}
    ready: list[CellBatch] = []
    cell_batch = CellBatch()
    row = column = 0
    has_value = has_formula = takes = False
    reading_aside = 0
    kind = style = ""
    text: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal row, column, has_value, has_formula, takes, kind, style, reading_aside
        match tags[tag]:
            case "c":
                place = attributes.get("r")
                if place is None:
                    column += 1
                else:
                    name = place.rstrip("0123456789")
                    number = letters.get(name)
                    column = letters[name] = _column(name) if number is None else number
                kind, style = attributes.get("t", "n"), attributes.get("s", "")
                has_formula = False
                text.clear()
            case "v":
                takes = True
            case "t":
                takes = not reading_aside
            case "f":
                has_formula = True
            case "row":
                row = _row(attributes.get("r"), row)
                column = 0
                has_value = False
            case "rPh":
                reading_aside += 1

    def end(tag: str) -> None:
        nonlocal takes, cell_batch, reading_aside
        match tags[tag]:
            case "c":
                take()
            case "v" | "t":
                takes = False
            case "rPh":
                reading_aside -= 1
            case "row":
                if has_value:
                    cell_batch.rows.append(row)
                    if cell_batch.size >= most_bytes or len(cell_batch.rows) >= _MOST_ROWS:
                        ready.append(cell_batch)
                        cell_batch = CellBatch()

    def characters(data: str) -> None:
        if takes:
            text.append(data)

    def take() -> None:
        nonlocal has_value
        if not (cells.first_row <= row <= cells.last_row and cells.first_column <= column <= cells.last_column):
            return
        found = text[0] if len(text) == 1 else "".join(text)
        what, found = _value(kind, style, found, kinds, texts, has_formula=has_formula)
        if what is Kind.NOTHING:
            return
        if digits and what is Kind.NUMBER and found.isdecimal() and style.isdecimal():
            what, found = _code(found, digits[int(style)] if int(style) < len(digits) else 0)
        if named is not None and column not in named:
            outside.count += 1
            outside.first = outside.first if outside.count > 1 else (row, column)
            return
        if not has_value:
            has_value = True
            row_began[0] = cell_batch.size
        if column in wanted:
            taken = cell_batch.columns[column]
            taken.rows.append(len(cell_batch.rows))
            taken.texts.append(found)
            taken.kinds.append(what)
            cell_batch.size += _CELL_BYTES + len(found)
            if cell_batch.size - row_began[0] > most_row_bytes:
                raise MemoryError

    row_began = [0]
    reading = workbook.parser()
    reading.StartElementHandler, reading.EndElementHandler = start, end
    reading.CharacterDataHandler = characters
    for _ in workbook.parsed(reading, part):
        yield from ready
        ready.clear()
        if row > cells.last_row:
            break
    if cell_batch.rows:
        yield cell_batch


def _column(name: str) -> int:
    number = ranges.number_of(name) if name.isascii() and name.isalpha() and len(name) <= 3 else 0
    if not 1 <= number <= ranges.COLUMNS:
        raise Refused(f"is a broken Excel workbook: a cell is in column '{name[:20]}', which no sheet has")
    return number


def _row(written: str | None, before: int) -> int:
    """The number of a row; rows come in their order."""
    number = before + 1 if written is None else int(written) if written.isascii() and written.isdecimal() else 0
    if not before < number <= ranges.ROWS:
        raise Refused(f"is a broken Excel workbook: row {(written or str(number))[:20]!r} follows row {before}")
    return number


def _value(
    kind: str, style: str, text: str, kinds: Sequence[Kind], texts: Callable[[int], str], *, has_formula: bool
) -> tuple[Kind, str]:
    """The kind and the text of a cell."""
    match kind:
        case "n":
            found = text.strip()
            if not found:
                return (Kind.ERROR, NO_VALUE) if has_formula else (Kind.NOTHING, "")
            number = int(style) if style.isdecimal() else 0
            return (kinds[number] if number < len(kinds) else Kind.NUMBER), found
        case "s":
            found = _shared(text, texts)
        case "b":
            if not text:
                return (Kind.ERROR, NO_VALUE) if has_formula else (Kind.NOTHING, "")
            return Kind.BOOL, text
        case "e":
            return Kind.ERROR, text or _NO_WORD
        case "d":
            return (Kind.ISO, text) if text else (Kind.NOTHING, "")
        case _:
            found = workbook.unescaped(text)
    # A formula whose text is empty makes a cell look empty, and people take it for that.
    return (Kind.TEXT, found) if found else (Kind.NOTHING, "")


def _code(text: str, digits: int) -> tuple[Kind, str]:
    """A whole number as its cell shows it: one in a format for codes is a text with its leading zeros."""
    return (Kind.TEXT, text.zfill(digits)) if digits else (Kind.NUMBER, text)


def _shared(text: str, texts: Callable[[int], str]) -> str:
    if not text:
        return ""
    try:
        return texts(int(text))
    except (LookupError, ValueError):
        raise Refused(
            f"is a broken Excel workbook: a cell has the shared text '{text[:20]}', and there is none"
        ) from None


def shown(kind: Kind, text: str, *, from_1904: bool) -> str:
    """The text of a cell, for names of columns."""
    if kind is Kind.BOOL:
        return "true" if text in ("1", "true") else "false"
    if kind not in (Kind.DATE, Kind.MOMENT, Kind.TIME, Kind.DURATION):
        return text
    try:
        found = moments.value_of(float(text), kind, from_1904=from_1904)
    except (moments.Unknown, ValueError, OverflowError):
        return text
    return found if isinstance(found, str) else str(found.isoformat())
