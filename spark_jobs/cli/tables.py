"""Tables and lists of records for terminals."""

from __future__ import annotations

import json
import unicodedata
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = dict[str, Any]

#: A longer cell of a table is cut, which its last character says.
_WIDEST_CELL = 60
_CUT = "…"
_BETWEEN = "  "


def of_records(rows: Sequence[Row], kinds: Mapping[str, str], width: int | None = None) -> list[str]:
    """Records as lines of a table, a column for each name; as a list of members where the table is too wide.

    Args:
        rows: the records.
        kinds: the types of columns that are known, shown below their names; there is no such line where none is.
        width: how many characters a line may have; None: any number.
    """
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(kinds)
    if not names:
        return []
    cells = [[_cell(row[name]) if name in row else "" for name in names] for row in rows]
    heads = [[printable(name) for name in names], *([[kinds.get(name, "") for name in names]] if kinds else [])]
    if width is not None and max(map(_width, _lines(heads, cells, ()))) > width:
        return _listed(heads[0], cells)
    numbers = [at for at, name in enumerate(names) if all(_is_number(row.get(name)) for row in rows)]
    return _lines(heads, cells, numbers)


def of_texts(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Rows of texts as lines of a table."""
    shown = [[printable(cell) for cell in row] for row in cells]
    return _lines([list(heads)], shown, ())


def _lines(heads: Sequence[Sequence[str]], cells: Sequence[Sequence[str]], to_the_right: Sequence[int]) -> list[str]:
    """Lines of a table: heads, a rule, cells; these columns stand at their right ends."""
    widths = [max(map(_width, column)) for column in zip(*heads, *cells, strict=True)]
    rule = ["-" * size for size in widths]
    lines = []
    for line in (*heads, rule, *cells):
        padded = [
            _padded(text, size, at in to_the_right) for at, (text, size) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append(_BETWEEN.join(padded).rstrip())
    return lines


def _listed(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    widest = max(map(_width, names))
    lines = []
    for number, line in enumerate(cells, 1):
        lines.append(f"-- {number}")
        lines += [f"{_padded(name, widest, False)}{_BETWEEN}{cell}" for name, cell in zip(names, line, strict=True)]
    return lines


def _cell(value: Any) -> str:
    """A value: texts as they are, unless that hides something; everything else as JSON."""
    if isinstance(value, str):
        is_plain = value != "" and value == value.strip() and value.isprintable() and value != "null"
        text = value if is_plain else json.dumps(value, ensure_ascii=False)
    else:
        text = f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
    text = printable(text)
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + _CUT


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


def _width(text: str) -> int:
    """The number of columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _padded(text: str, size: int, to_the_right: bool) -> str:
    space = " " * (size - _width(text))
    return space + text if to_the_right else text + space
