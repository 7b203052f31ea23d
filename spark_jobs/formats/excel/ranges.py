"""Ranges of cells as spreadsheets write them: `B3:F200`, `B3:F`, `B:F`, `3:200`, `B3`."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The maximal size of a sheet.
ROWS, COLUMNS = 1 << 20, 1 << 14

_CELL = r"\$?(?P<{0}_column>[A-Za-z]{{1,3}})?\$?(?P<{0}_row>[0-9]{{1,7}})?"
_RANGE = re.compile(_CELL.format("first") + "(?::" + _CELL.format("last") + ")?", re.ASCII)


@dataclass(frozen=True)
class Range:
    """Some cells of a sheet: rows and columns from 1 on, the last ones included."""

    first_row: int = 1
    first_column: int = 1
    last_row: int = ROWS
    last_column: int = COLUMNS


def parsed(text: str) -> Range | None:
    """A range of cells; None where the text is none. Where a border is left out, it is the sheet's."""
    found = _RANGE.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    is_pair = ":" in text
    if not is_pair and not all(found.group("first_column", "first_row")):
        return None  # a letter or a number alone may be a name
    if is_pair and not any(found.group("last_column", "last_row")):
        return None
    first_column, last_column = (
        number_of(found[key]) if found[key] else None for key in ("first_column", "last_column")
    )
    first_row, last_row = (int(found[key]) if found[key] else None for key in ("first_row", "last_row"))
    cells = Range(
        1 if first_row is None else first_row,
        1 if first_column is None else first_column,
        ROWS if last_row is None else last_row,
        COLUMNS if last_column is None else last_column,
    )
    is_there = (
        1 <= cells.first_row <= cells.last_row <= ROWS and 1 <= cells.first_column <= cells.last_column <= COLUMNS
    )
    return cells if is_there else None


def number_of(letters: str) -> int:
    """The number of a column, from 1 on."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def letters_of(number: int) -> str:
    """The letters of a column."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
