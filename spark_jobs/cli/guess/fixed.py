"""Guesses the source of a file whose fields have the same positions in each line: equally long lines, or a report."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from spark_jobs.cli.guess import values
from spark_jobs.cli.guess.source import Guess

_MOST_LINES = 20_000
_FEWEST_LINES = 3
#: A ruler is looked for in so many lines, and so many may follow the records.
_MOST_TITLES = 20
_MOST_AFTER = 10
_STROKES = re.compile(r"-+|=+")
_RULER = re.compile(r" *(?:-{2,}|={2,})(?: +(?:-+|=+))+ *")
#: A blank line, or one of strokes alone.
_END = re.compile(r" *|[-= ]*(?:-{3}|={3})[-= ]*")
_SUM = re.compile(r" *(?:(?:grand|sub)[ -]?)?(?:total|sum|summe|gesamt)\b", re.IGNORECASE)


class NoPlaces(Exception):
    """A report has a ruler, and its fields are not where the ruler has its strokes."""


def guess(text: str, *, is_whole: bool, as_text: bool) -> tuple[Guess, int] | None:
    """The source that reads a text, and how many records were looked at; None where fields have no places in it.

    Args:
        text: the text.
        is_whole: whether it is all of the file, so that lines after the records are seen.
        as_text: whether all columns are texts.

    Raises:
        NoPlaces: it is a report, and its fields have other places than its ruler says.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    lines = lines if lines[-1] else lines[:-1]
    is_whole = is_whole and len(lines) <= _MOST_LINES
    lines = lines[:_MOST_LINES]
    if len(lines) < _FEWEST_LINES or not text.isascii():
        return None
    return _ruled(text, lines, is_whole=is_whole, as_text=as_text) or _equally_long(text, lines, as_text=as_text)


def _equally_long(text: str, lines: list[str], *, as_text: bool) -> tuple[Guess, int] | None:
    """The source of lines that have one length, nearly all of them."""
    lengths = Counter(map(len, lines))
    length, often = lengths.most_common(1)[0]
    if often < 0.9 * len(lines) or length < 4:
        return None
    whole = [line for line in lines if len(line) == length]
    places = _places(whole, length)
    if len(places) < 2:
        return None
    names = _names_of(whole[0], whole[1:], places) if whole[0] == lines[0] else None
    rows = whole[1:] if names else whole
    made = _made(text, rows, places, names, as_text=as_text)
    if names:
        made.options["skip_rows"] = 1
        made.remarks.append("the first line has the names of the fields: it is left out (`skip_rows`)")
    if len(whole) < len(lines):
        made.remarks.append(f"{len(lines) - len(whole)} of {len(lines)} lines have another length")
    return made, len(rows)


def _ruled(text: str, lines: list[str], *, is_whole: bool, as_text: bool) -> tuple[Guess, int] | None:
    """The source of a report: the strokes of a ruler below its headings show where the fields are.

    None where there is no such ruler.

    Raises:
        NoPlaces: text stands before a field, or blank lines and more rulers part the records, as they do on pages.
    """
    at = next((number for number, line in enumerate(lines[:_MOST_TITLES]) if _RULER.fullmatch(line)), 0)
    if not at:
        return None
    body = lines[at + 1 :]
    end = next((number for number, line in enumerate(body) if _END.fullmatch(line)), len(body))
    rows, after = body[:end], body[end:]
    starts = [found.start() for found in _STROKES.finditer(lines[at])]
    is_paged = len(after) > _MOST_AFTER or (after and not is_whole)
    if not rows or is_paged or any(line[start - 1 : start].strip() for start in starts[1:] for line in rows):
        raise NoPlaces
    longest = max(map(len, [lines[at], *rows]))
    starts[0] = 0
    places = [(start, stop - start) for start, stop in zip(starts, [*starts[1:], longest], strict=True)]
    names = [_cell(lines[at - 1], *place) for place in places]
    made = _made(text, rows, places, names if all(names) and len({*names}) == len(names) else None, as_text=as_text)
    made.options["skip_rows"] = at + 1
    made.remarks.append(f"the first {at + 1} lines are left out (`skip_rows`): titles, headings and a ruler")
    if after:
        made.options["skip_footer"] = len(after)
        shown = ", ".join(values.shown(line.strip()) for line in after if line.strip())
        made.remarks.append(f"{len(after)} lines after the records are left out (`skip_footer`): {shown}")
    sums = [number for number, line in enumerate(rows, 1) if _SUM.match(line)]
    if sums:
        made.doubts.append(f"row {sums[0]} looks like a sum of others; a `filter` in a transform leaves such rows out")
    return made, len(rows)


def _places(lines: list[str], length: int) -> list[tuple[int, int]]:
    """The positions and widths of fields, between columns that are blank in every line."""
    is_blank = [all(line[at] == " " for line in lines) for at in range(length)]
    starts = [at for at in range(length) if not is_blank[at] and (at == 0 or is_blank[at - 1])]
    if not starts:
        return []
    starts[0] = 0
    return [(start, end - start) for start, end in zip(starts, [*starts[1:], length], strict=True)]


def _names_of(line: str, rows: list[str], places: list[tuple[int, int]]) -> list[str] | None:
    """The names that a line has for the fields of others; None where it may be a record."""
    names = [_cell(line, *place) for place in places]
    typed = values.guess([_cells(name, rows, *place) for name, place in zip(names, places, strict=True)])
    are_typed = any(
        column.type != "string" and not any(map(str.isdigit, name)) for column, name in zip(typed, names, strict=True)
    )
    return names if all(names) and len({*names}) == len(names) and are_typed else None


def _made(
    text: str, rows: list[str], places: list[tuple[int, int]], names: list[str] | None, *, as_text: bool
) -> Guess:
    names = names or [f"field_{place}" for place in range(1, len(places) + 1)]
    columns = values.guess([_cells(name, rows, *at) for name, at in zip(names, places, strict=True)])
    if as_text:
        columns = [values.Column(column.name, is_unique=column.is_unique) for column in columns]
    made = Guess("", [], "fixed_width", columns=columns)
    made.remarks += values.column_notes(columns)
    if "\r\n" in text:
        made.options["line_separator"] = "cr_lf"
    for name, (start, width) in zip(names, places, strict=True):
        entry: dict[str, Any] = {"name": name, "start": start, "width": width}
        made.layout.append(entry)
    return made


def _cells(name: str, lines: list[str], start: int, width: int) -> tuple[str, Counter[str], int]:
    cells = Counter(_cell(line, start, width) for line in lines)
    cells.pop("", None)
    return name, cells, len(lines)


def _cell(line: str, start: int, width: int) -> str:
    return line[start : start + width].strip()
