"""Reads the cells of a sheet as a stream: the values of some columns, and which rows have any value."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
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
#: The bytes that a cell takes in addition to its text.
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
    """Counts values in columns without names, and notes the row and column of the first one."""

    def __init__(self) -> None:
        self.count = 0
        self.first = (0, 0)

    def add(self, row: int, column: int) -> None:
        """Count a value."""
        if not self.count:
            self.first = (row, column)
        self.count += 1


#: The elements that matter for values.
_NAMES = {name: name for name in ("row", "c", "v", "f", "t", "is", "rPh")}


class _Tags(dict[str, str | None]):
    """The names of elements that matter, by their names with a namespace."""

    def __missing__(self, tag: str) -> str | None:
        self[tag] = name = _NAMES.get(workbook.local(tag))
        return name


@dataclass(frozen=True)
class Lookup:
    """The parts of a workbook that cells refer to.

    Args:
        texts: the shared texts by their numbers; raises `LookupError` where there is none.
        kinds: the kinds of numbers, by the style of their cell.
        digits: the least digits of numbers that are codes, by the same; empty if none are.
    """

    texts: Callable[[int], str]
    kinds: Sequence[Kind]
    digits: Sequence[int]


class SheetParser:
    """Turns the XML of a sheet into batches of the rows that have a value.

    Args:
        bounds: the cells that count.
        named: the columns that have names; None for all.
        wanted: the columns whose values are wanted.
        lookup: shared texts and styles.
        outside: counts values in columns without names.
        batch_bytes: the size at which a batch ends.
        row_bytes: the size that a row may have.
    """

    def __init__(
        self,
        bounds: Range,
        named: set[int] | None,
        wanted: set[int],
        lookup: Lookup,
        *,
        outside: Outside,
        batch_bytes: int,
        row_bytes: int,
    ) -> None:
        self._bounds, self._named, self._wanted = bounds, named, wanted
        self._lookup, self._outside = lookup, outside
        self._batch_bytes, self._row_bytes = batch_bytes, row_bytes
        self._tags = _Tags()
        self._columns: dict[str, int] = {}
        self._ready: list[CellBatch] = []
        self._batch = CellBatch()
        # The cell that is being read, and where its row begins in the batch.
        self._row = self._column = self._row_start = 0
        self._kind = self._style = ""
        self._text: list[str] = []
        self._row_has_value = self._has_formula = self._is_text = False
        #: The depth of phonetic hints (`rPh`), whose texts do not belong to the cell.
        self._hints = 0

    def batches(self, part: IO[bytes]) -> Iterator[CellBatch]:
        """The rows of a sheet, in their order.

        Args:
            part: the part of the file with the sheet.

        Raises:
            Refused: the sheet is broken.
            MemoryError: a row is larger than `row_bytes`.
        """
        parser = workbook.parser()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        for _ in workbook.parsed(parser, part):
            yield from self._ready
            self._ready.clear()
            if self._row > self._bounds.last_row:
                break
        if self._batch.rows:
            yield self._batch

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        match self._tags[tag]:
            case "c":
                self._start_cell(attributes)
            case "v":
                self._is_text = True
            case "t":
                self._is_text = not self._hints
            case "f":
                self._has_formula = True
            case "row":
                self._row = _row(attributes.get("r"), self._row)
                self._column = 0
                self._row_has_value = False
            case "rPh":
                self._hints += 1

    def _start_cell(self, attributes: dict[str, str]) -> None:
        place = attributes.get("r")
        if place is None:
            self._column += 1
        else:
            letters = place.rstrip("0123456789")
            number = self._columns.get(letters)
            if number is None:
                number = self._columns[letters] = _column(letters)
            self._column = number
        self._kind, self._style = attributes.get("t", "n"), attributes.get("s", "")
        self._has_formula = False
        self._text.clear()

    def _end(self, tag: str) -> None:
        match self._tags[tag]:
            case "c":
                self._end_cell()
            case "v" | "t":
                self._is_text = False
            case "rPh":
                self._hints -= 1
            case "row":
                if self._row_has_value:
                    self._end_row()

    def _characters(self, data: str) -> None:
        if self._is_text:
            self._text.append(data)

    def _end_row(self) -> None:
        batch = self._batch
        batch.rows.append(self._row)
        if batch.size >= self._batch_bytes or len(batch.rows) >= _MOST_ROWS:
            self._ready.append(batch)
            self._batch = CellBatch()

    def _end_cell(self) -> None:
        bounds, row, column = self._bounds, self._row, self._column
        if not (bounds.first_row <= row <= bounds.last_row and bounds.first_column <= column <= bounds.last_column):
            return
        written = self._text[0] if len(self._text) == 1 else "".join(self._text)
        kind, text = _value(self._kind, self._style, written, self._lookup, has_formula=self._has_formula)
        if kind is Kind.NOTHING:
            return
        if self._named is not None and column not in self._named:
            self._outside.add(row, column)
            return
        if not self._row_has_value:
            self._row_has_value = True
            self._row_start = self._batch.size
        if column in self._wanted:
            self._add(column, kind, text)

    def _add(self, column: int, kind: Kind, text: str) -> None:
        batch = self._batch
        values = batch.columns[column]
        values.rows.append(len(batch.rows))
        values.texts.append(text)
        values.kinds.append(kind)
        batch.size += _CELL_BYTES + len(text)
        if batch.size - self._row_start > self._row_bytes:
            raise MemoryError


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


def _value(kind: str, style: str, text: str, lookup: Lookup, *, has_formula: bool) -> tuple[Kind, str]:
    """The kind and the text of a cell."""
    match kind:
        case "n":
            found = text.strip()
            if not found:
                return (Kind.ERROR, NO_VALUE) if has_formula else (Kind.NOTHING, "")
            return _number(found, int(style) if style.isdecimal() else 0, lookup)
        case "s":
            found = _shared(text, lookup.texts)
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


def _number(text: str, style: int, lookup: Lookup) -> tuple[Kind, str]:
    """A number, or a text with leading zeros if the format of the cell is one for codes."""
    kind = lookup.kinds[style] if style < len(lookup.kinds) else Kind.NUMBER
    if kind is Kind.NUMBER and style < len(lookup.digits) and lookup.digits[style] and text.isdecimal():
        return Kind.TEXT, text.zfill(lookup.digits[style])
    return kind, text


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
