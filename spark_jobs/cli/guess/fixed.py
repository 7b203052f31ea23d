"""Guesses the source of a file of equally long lines, whose fields have the same positions in each."""

from __future__ import annotations

from collections import Counter
from typing import Any

from spark_jobs.cli.guess import values
from spark_jobs.cli.guess.source import Guess

_MOST_LINES = 20_000
_FEWEST_LINES = 3


def guess(text: str, *, as_text: bool) -> tuple[Guess, int] | None:
    """The source that reads a text, and how many records were looked at; None where fields have no places in it."""
    lines = text.replace("\r\n", "\n").split("\n")
    lines = (lines if lines[-1] else lines[:-1])[:_MOST_LINES]
    if len(lines) < _FEWEST_LINES or not text.isascii():
        return None
    lengths = Counter(map(len, lines))
    length, often = lengths.most_common(1)[0]
    if often < 0.9 * len(lines) or length < 4:
        return None
    whole = [line for line in lines if len(line) == length]
    places = _places(whole, length)
    if len(places) < 2:
        return None
    return _made(text, whole, places, len(lines), as_text=as_text)


def _places(lines: list[str], length: int) -> list[tuple[int, int]]:
    """The positions and widths of fields, between columns that are blank in every line."""
    is_blank = [all(line[at] == " " for line in lines) for at in range(length)]
    starts = [at for at in range(length) if not is_blank[at] and (at == 0 or is_blank[at - 1])]
    if not starts:
        return []
    starts[0] = 0
    return [(start, end - start) for start, end in zip(starts, [*starts[1:], length], strict=True)]


def _made(
    text: str, lines: list[str], places: list[tuple[int, int]], total: int, *, as_text: bool
) -> tuple[Guess, int]:
    header = [lines[0][start : start + width].strip() for start, width in places]
    body = lines[1:]
    typed = values.guess([_cells(f"field_{place}", body, *at) for place, at in enumerate(places, 1)])
    names_it = (
        all(header)
        and len(set(header)) == len(header)
        and any(
            column.type != "string" and not any(map(str.isdigit, name))
            for column, name in zip(typed, header, strict=True)
        )
    )
    names = header if names_it else [f"field_{place}" for place in range(1, len(places) + 1)]
    rows = body if names_it else lines
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
    if names_it:
        made.remarks.append("the first line has names: it is a record of the file, and becomes a dead letter")
    if len(lines) < total:
        made.remarks.append(f"{total - len(lines)} of {total} lines have another length")
    return made, len(rows)


def _cells(name: str, lines: list[str], start: int, width: int) -> tuple[str, Counter[str], int]:
    cells = Counter(line[start : start + width].strip() for line in lines)
    cells.pop("", None)
    return name, cells, len(lines)
