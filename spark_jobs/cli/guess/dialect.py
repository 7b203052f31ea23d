"""The signs of a text with fields: delimiter, quote, escape character, record separator.

All combinations that the text may have are tried. The best one gives records of equal width with cells that look like
values. Python's own reader parses the text: its rules for quotes are the same as in CSV sources.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: In the order of preference.
_DELIMITERS = (",", ";", "\t", "|", "||", "\t\t", "::", ":", "^", "~", "\x01", "\x1f", "¦", "§", " ")
_PREFERENCE = {delimiter: 1 - 0.004 * place for place, delimiter in enumerate(_DELIMITERS)} | {" ": 0.9, ":": 0.93}
_SEPARATORS = ("~", "\x1e", "\x1d", ";", "|", "^", "\x02")
_SAMPLE_CHARACTERS = 64 << 10
#: Stand for a delimiter of several characters, and for another separator, while Python's reader parses.
_ONE = "\x1f"
#: Stand for a blank and a tab at the end of a quoted field meanwhile.
_MARKS = str.maketrans({" ": "\ufdd0", "\t": "\ufdd1"})
_BLANKS = str.maketrans({"\ufdd0": " ", "\ufdd1": "\t"})
_VALUE = re.compile(
    r"[+-]?[0-9][0-9.,' ]*(?:[eE][+-]?[0-9]+)?\s?%?"
    r"|[$€£¥]\s?[+-]?[0-9][0-9.,' ]*|[+-]?[0-9][0-9.,' ]*\s?[$€£¥]"
    r"|[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}(?:[T ][0-9:.]+\s*(?:Z|[+-][0-9:]+|[AaPp][Mm])?)?"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:\s?[AaPp][Mm])?"
    r"|(?:true|false|yes|no|null|n/?a|nan|none|-+)"
    r"|[a-z]+://\S+|[\w.+-]+@[\w-]+\.[\w.]+",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[^\W_][\w .\-/&'()#+]*", re.UNICODE)
_OTHERS = ",;\t|"
#: Colons of times of day and addresses.
_NO_DELIMITERS = re.compile(r"(?<=[0-9]):(?=[0-9])|:(?=//)")


@dataclass(frozen=True)
class Signs:
    """The signs of a file.

    Args:
        delimiter: what stands between fields.
        quote: what stands around fields that need it; empty where nothing does.
        escape: what takes the meaning from a sign after it; empty where nothing does.
        separator: what ends records; empty where line ends do.
        trims: whether blanks around fields are none of them.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    separator: str = ""
    trims: bool = False


@dataclass(frozen=True)
class Row:
    """A record of a text: its cells, and the numbers of its first and last line, from 0."""

    cells: tuple[str, ...]
    first: int
    after: int

    @property
    def filled(self) -> int:
        """The number of cells that are not empty."""
        return sum(bool(cell.strip()) for cell in self.cells)


class TooLong(Exception):
    """A cell is too long for a table: a quote is never closed."""


def rows(text: str, signs: Signs) -> Iterator[Row]:
    """The records of a text, without blank lines.

    Raises:
        TooLong: a cell is longer than Python's reader takes.
    """
    delimiter = signs.delimiter
    if len(delimiter) > 1:
        text, delimiter = text.replace(delimiter, _ONE), _ONE
    if signs.separator:
        text = text.replace(signs.separator, "\n")
    if signs.trims and signs.quote:
        text = _with_marked_blanks(text, delimiter, signs.quote)
    lines = io.StringIO(text, newline="" if not signs.separator else "\n")
    reader = csv.reader(
        lines,
        delimiter=delimiter,
        quotechar=signs.quote or None,
        quoting=csv.QUOTE_MINIMAL if signs.quote else csv.QUOTE_NONE,
        escapechar=signs.escape or None,
        skipinitialspace=signs.trims and delimiter != " ",
    )
    before = 0
    try:
        for cells in reader:
            if cells:
                trimmed = [cell.strip(" \t").translate(_BLANKS) for cell in cells] if signs.trims else cells
                yield Row(tuple(trimmed), before, reader.line_num)
            before = reader.line_num
    except csv.Error as error:
        raise TooLong from error


def _with_marked_blanks(text: str, delimiter: str, quote: str) -> str:
    """A text with marks in place of the blanks at both ends of quoted fields, which `trim` keeps.

    Python's reader does not say which fields had quotes.
    """
    sign, between = re.escape(quote), re.escape(delimiter)
    inside = rf"[^{sign}]*+(?:{sign}{sign}[^{sign}]*+)*+"  # needs no memory for backtracking
    field = re.compile(rf"((?:^|[\r\n]|{between})[ \t]*{sign})({inside})(?={sign})")

    def marked(found: re.Match[str]) -> str:
        content = found[2]
        start = len(content) - len(content.lstrip(" \t"))
        end = len(content.rstrip(" \t"))
        if start >= end:
            return found[1] + content.translate(_MARKS)
        return found[1] + content[:start].translate(_MARKS) + content[start:end] + content[end:].translate(_MARKS)

    return field.sub(marked, text)


def guess(text: str) -> tuple[Signs, float]:
    """The signs of a text, and how well they fit, from 0 to 1; a text without fields has the usual ones, and 0."""
    sample = _sample(text)
    separator = _separator(sample)
    best, found = 0.0, Signs(separator=separator)
    for candidate in _candidates(sample, separator):
        score = _score(sample, candidate)
        if score > best + 1e-9:
            best, found = score, candidate
    return found, best


def _sample(text: str) -> str:
    """The complete lines at the beginning of a text."""
    if len(text) <= _SAMPLE_CHARACTERS:
        return text
    end = max(text.rfind("\n", 0, _SAMPLE_CHARACTERS), text.rfind("\r", 0, _SAMPLE_CHARACTERS))
    return text[: end + 1] if end > _SAMPLE_CHARACTERS // 2 else text[:_SAMPLE_CHARACTERS]


def _separator(sample: str) -> str:
    """The record separator if it is not a line end; otherwise empty."""
    lines = sample.count("\n") + sample.count("\r")
    if lines > 1 + len(sample) // 4096:
        return ""
    best = max(_SEPARATORS, key=sample.count)
    count = sample.count(best)
    if count < 3 or count <= 3 * lines:
        return ""
    widths = Counter(
        tuple(part.count(delimiter) for delimiter in _OTHERS if delimiter != best)
        for part in sample.rstrip("\r\n" + best).split(best)
    )
    shape, often = widths.most_common(1)[0]
    return best if any(shape) and often > 0.8 * widths.total() else ""


def _candidates(sample: str, separator: str) -> Iterator[Signs]:
    for delimiter in _DELIMITERS:
        if delimiter not in sample or delimiter == separator:
            continue
        if delimiter == ":" and 2 * len(_NO_DELIMITERS.findall(sample)) > sample.count(":"):
            continue
        before = re.escape(delimiter)
        quotes = [quote for quote in "\"'" if re.search(rf"(?:^|{before}|[\r\n])[ \t]?{quote}", sample)]
        for quote in ["", *quotes] if quotes else ['"']:
            escapes = [""]
            if "\\" in sample and any("\\" + sign in sample for sign in (delimiter, quote) if sign):
                escapes.append("\\")
            for escape in escapes:
                yield Signs(delimiter, quote, escape, separator)
                if delimiter.strip() and (delimiter + " " in sample or " " + delimiter in sample):
                    yield Signs(delimiter, quote, escape, separator, trims=True)


def _score(sample: str, signs: Signs) -> float:
    """A score for how well some signs fit a text."""
    try:
        found = list(rows(sample, signs))
    except TooLong:
        return 0.0
    if not found:
        return 0.0
    if len(found) > 2 and len(sample) >= _SAMPLE_CHARACTERS // 2:
        found = found[:-1]  # it may have been cut
    widths = Counter(len(row.cells) for row in found)
    # Titles and remarks are narrow, and few: a table of several columns goes before them.
    width = max(widths, key=lambda one: (widths[one] * (one - 1) / one, one))
    if width == 1:
        return 0.0
    near = widths[width] + 0.5 * (widths[width - 1] if width > 2 else 0) + 0.5 * widths[width + 1]
    agreeing = near / len(found)
    parts = (width - 1) / width
    likely = _likeness([row for row in found if len(row.cells) == width][:400], signs)
    broken = _broken(sample, signs)
    return agreeing * (0.6 + 0.4 * parts) * likely * broken * _PREFERENCE.get(signs.delimiter, 0.9)


def _likeness(found: list[Row], signs: Signs) -> float:
    """A score for how much cells look like values, from 0 to 1."""
    cells = Counter(cell for row in found for cell in row.cells)
    points = 0.0
    for cell, count in cells.items():
        points += count * _likeness_of(cell, signs)
    return points / max(cells.total(), 1)


def _likeness_of(cell: str, signs: Signs) -> float:
    if not cell:
        return 0.8
    if cell != cell.strip():
        return 0.4
    if _VALUE.fullmatch(cell):
        return 1.0
    if cell[0] in "\"'" and cell[0] != signs.quote:
        return 0.3
    if _WORDS.fullmatch(cell):
        return 0.95
    strange = sum(cell.count(other) for other in _OTHERS if other != signs.delimiter)
    quoted = 0.2 if any(q in cell and q == '"' for q in '"') and signs.quote != '"' else 0.0
    return max(0.85 - 0.03 * min(strange, 10) - quoted, 0.2)


def _broken(sample: str, signs: Signs) -> float:
    """A mild penalty factor, from 0 to 1, for quotes around cells in unlikely places."""
    if not signs.quote:
        return 0.97
    quote, before = re.escape(signs.quote), re.escape(signs.delimiter)
    blanks = "[ \t]*" if signs.trims else ""
    ends = rf"(?:{before}|[\r\n]|$|{re.escape(signs.separator)})" if signs.separator else rf"(?:{before}|[\r\n]|$)"
    opening = len(re.findall(rf"(?:^|{before}|[\r\n]){blanks}{quote}", sample))
    closing = len(re.findall(rf"{quote}{blanks}{ends}", sample))
    if not opening:
        return 0.985
    escaped = 0.0
    if not signs.escape:
        # An escape that is not taken for one lets cells end too early.
        escaped = min(0.1, 0.02 * len(re.findall(rf"\\{quote}(?!{quote}|{blanks}{ends})", sample)))
    return max(0.5, 1 - 0.5 * abs(opening - closing) / max(opening, closing)) - escaped
