"""Finds the table in a text: its beginning and end, the names of its columns, and the width of its records."""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.cli.guess import dialect
from spark_jobs.cli.guess.dialect import Row
from spark_jobs.formats import hints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cli.guess.dialect import Signs

_VALUE = re.compile(
    r"[+-]?[0-9][0-9.,'’ \u00a0]*(?:[eE][+-]?[0-9]+)?\s?%?|[$€£¥]\s?[0-9].*"
    r"|[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}.*|[0-9]{1,2}:[0-9]{2}.*|true|false",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_][\w .\-/()%#&'°€$:+]{0,60}", re.UNICODE)
_SUMMARY = re.compile(
    r"\W*(?:grand |sub|sous-|zwischen|gesamt|end)?"
    r"(?:totals?|sums?|summe|gesamt|count|records?|rows?|quelle|source|end of|eof|notes?|footnotes?"
    r"|generated|\(c\)|©|total[ei]|totaal|razem|celkem|összesen|insgesamt|итого|averages?"
    r"|mittelwert|durchschnitt|moyenne|合計|总计)(?:\b|(?<=[^\x00-\x7f]))",
    re.IGNORECASE,
)
#: Words that a row of sums begins with, and nothing but these; other rows may also have them in a cell.
_SUM_ALONE = re.compile(
    r"\W*(?:(?:grand |sub-?|sous-|zwischen|gesamt|end)?"
    r"(?:totals?|sums?|summen?|gesamt|total[ei]|totaal|suma|soma|razem|celkem|összesen|insgesamt|итого|合計|总计"
    r"|averages?|mean|mittelwert|durchschnitt|moyenne|media|promedio)"
    r"|(?:total|suma|totale) (?:général|general|generale))\W*",
    re.IGNORECASE,
)
#: What spreadsheets call the sums of groups.
_SUM_OF_GROUP = re.compile(r".{0,80}(?<=\W)(?:total|ergebnis|summe|totaal|totale)|\w*ergebnis", re.IGNORECASE)
#: What statements of accounts call the rows between bookings that only have a balance.
_BALANCE = re.compile(
    r"\W*(?:(?:anfangs|end|schluss|zwischen|konto|tages)-?saldo\b.*|saldo (?:per|vom|am|zum)\b.*|saldo(?:vortrag)?"
    r"|saldo (?:inicial|final|anterior|iniziale|finale)\b.*|übertrag|kontostand\b.*"
    r"|(?:opening|closing|starting|ending) balance\b.*|balance (?:brought|carried) (?:forward|down)\b.*"
    r"|(?:brought|carried) forward|(?:ancien|nouveau) solde\b.*|solde (?:initial|final|au)\b.*)\W*",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
#: Not `12.2021`, which may be a number.
_DAY_OR_MONTH = re.compile(r"[0-9]{1,2}[-/][0-9]{4}|[0-9]{4}[-/][0-9]{1,2}|[0-9]{1,4}([-./])[0-9]{1,2}\1[0-9]{1,4}")
#: In so many records at most a word for sums begins rows of sums; in more it is an ordinary value.
_MOST_SUMS = 0.2
_EXCELS_LINE = re.compile(r'"?sep=([^\r\n])"?', re.IGNORECASE)
_NULL_WORDS = frozenset(word.casefold() for word in hints.NULL_WORDS)
#: A line that programs draw below headers and around tables.
_RULER = re.compile(r"\+?[-=]{2,}(?:[ +|]+[-=]{2,})*\+?")
_COMMENTS = ("#", "//", "%", "--", "!")
#: The number of records that are compared with a possible header.
_BODY_RECORDS = 2000
_MOST_HEADER_ROWS = 4
#: The number of records above and below a possible header of another table that are compared.
_NEAR_RECORDS = 200


@dataclass
class Table:
    """A table within a text.

    Args:
        signs: the signs of its text.
        width: how many columns it has.
        names: the names of the columns; empty if the table has no header.
        header_rows: how many records the header has.
        skipped: how many lines of the text stand before the table.
        footer: how many lines follow it.
        comment: what begins lines that are no records.
        body: its records.
        titles: the records before the table, as texts, and those after it.
        after: how many of these follow it.
        repeats_header: whether records are the header again.
        is_header_skipped: whether the header is a line to skip, because it does not fit the columns as it is.
        is_header_comment: whether the header is the last comment before the records, which is skipped in any case.
        has_row_names: whether the header is skipped because the first column has no name in it.
        is_header_likely: whether columns have values of a kind that their names have not; with texts alone, the
            header may be a record.
        lines: how many lines the file has; 0 if that is not known.
    """

    signs: Signs
    width: int
    names: tuple[str, ...] | None
    header_rows: int
    skipped: int
    footer: int
    comment: str
    body: list[Row]
    titles: list[str] = field(default_factory=list)
    after: int = 0
    repeats_header: bool = False
    is_header_skipped: bool = False
    is_header_comment: bool = False
    has_row_names: bool = False
    is_header_likely: bool = True
    lines: int = 0


def excels_delimiter(text: str) -> str | None:
    """The delimiter that the line names which Excel writes before a header."""
    first = text[:40].lstrip("\ufeff").splitlines()[:1]
    found = _EXCELS_LINE.fullmatch(first[0].strip()) if first else None
    return found[1] if found else None


def find(text: str, signs: Signs, *, is_end: bool = True) -> Table | None:
    """The table of a text; None where it has no record.

    Args:
        text: from the beginning of a file on.
        signs: what its signs are.
        is_end: whether the text ends where the file does.

    Raises:
        TooLong: a quote is never closed.
    """
    return of_rows(list(dialect.rows(text, signs)), signs, text, is_end=is_end)


def of_rows(found: list[Row], signs: Signs, text: str = "", *, is_end: bool = True) -> Table | None:
    """The table in some records; None where there is no record.

    Args:
        found: the records.
        signs: the signs of their text.
        text: the text they were read from; empty where they are not of a text.
        is_end: whether the file ends with them.

    Raises:
        TooLong: a quote is never closed.
    """
    if not is_end:
        found = found[:-1]
    if not found:
        return None
    starts = list(io.StringIO(text, newline="")) if text and not signs.separator else []
    comment = _comment(found, starts) if text else ""
    comments: list[Row] = []
    if comment:
        comments = [row for row in found if _begins(row, comment, starts)]
        found = [row for row in found if not _begins(row, comment, starts)]
        if not found:
            return None
    width = _width(found)
    first = _first_of_table(found, width, signs)
    if text and (mended := _with_odd_header(text, found, first, width, signs, is_end=is_end)) is not None:
        return mended
    last = _after_table(found, first, width) if is_end else len(found)
    lines = len(starts) if starts and is_end else found[-1].after  # blank lines at the end count, too
    inside = found[first:last]
    below = _another_below(inside[0].cells, width, inside[1:])
    header_rows = _header_rows(inside if below is None else inside[: 1 + below[1]])
    header = inside[:header_rows]
    table = Table(
        signs=signs,
        width=width,
        names=_names(header) if header_rows else None,
        header_rows=header_rows,
        skipped=inside[0].first if first else 0,
        footer=lines - inside[-1].after if last < len(found) else 0,
        comment=comment,
        body=inside[header_rows:],
        titles=[" ".join(filter(None, row.cells)) for row in (*found[:first], *found[last:])],
        after=len(found) - last,
        is_header_likely=header_rows != 1 or _is_other_than(header[0], inside[1:_BODY_RECORDS]),
        lines=lines if starts and is_end else 0,
    )
    _take_header_width(table)
    above = [row for row in comments if row.after == inside[0].first]
    if table.names is None and above and starts:
        _take_header_comment(table, starts[above[0].first].lstrip(comment[0]).strip())
    if table.names is not None and header_rows == 1:
        table.repeats_header = any(row.cells == header[0].cells for row in table.body)
    return table


def _comment(found: Sequence[Row], starts: Sequence[str]) -> str:
    """The sign that begins comment lines; empty if there are none."""
    if ruled := _rulers(found, starts):
        return ruled
    width = Counter(len(row.cells) for row in found).most_common(1)[0][0]
    for sign in _COMMENTS:
        lines = [row for row in found if _begins(row, sign, starts)]
        odd = [row for row in lines if len(row.cells) != width]
        begins = _begins(found[0], sign, starts) and (len(lines) > 1 or odd)
        if lines and len(lines) < len(found) / 2 and len(odd) >= 0.5 * len(lines) and (begins or len(odd) > 1):
            return sign
    return ""


def _rulers(found: Sequence[Row], starts: Sequence[str]) -> str:
    """Find the beginning of lines that are drawn below headers and around tables; empty where there are none."""
    if not starts:
        return ""
    ruled = [starts[row.first] for row in found[:4] if _RULER.fullmatch(starts[row.first].rstrip("\r\n"))]
    sign = ruled[0][:2] if ruled else ""
    if not sign or sign[0] not in "+-=":
        return ""  # a comment has no delimiter in it
    begun = [starts[row.first].rstrip("\r\n") for row in found if _begins(row, sign, starts)]
    return sign if 2 * len(begun) <= len(found) and all(map(_RULER.fullmatch, begun)) else ""


def _begins(row: Row, sign: str, starts: Sequence[str]) -> bool:
    """Whether the line that a record begins with does so with a sign."""
    return (starts[row.first] if starts else row.cells[0]).startswith(sign)


def _width(found: Sequence[Row]) -> int:
    """The most frequent width of records; among widths that are about as frequent, the one that comes first."""
    widths = Counter(len(row.cells) for row in found)
    scores = {one: count * (one - 1 if one > 1 else 0.5) / one for one, count in widths.items()}
    best = max(scores.values())
    # The widths are in the order in which they come.
    return next(one for one, score in scores.items() if score >= 0.9 * best)


def _first_of_table(found: Sequence[Row], width: int, signs: Signs) -> int:
    """The number of the first record of the table, after titles and remarks."""
    least = int(len(found) > 1 and bool(_EXCELS_LINE.fullmatch(signs.delimiter.join(found[0].cells).strip())))
    if width == 1:
        return least
    for number, row in enumerate(found[: min(len(found), 200)]):
        if (
            number >= least
            and _belongs(row, width)
            and not _stands_apart(found, number, width)
            and (len(row.cells) <= width + 1 or not _is_narrower(found, number, width))
            and (number + 1 == len(found) or _is_followed(found, number, width))
        ):
            return _first_of_narrow_table(found, least, number)
    return least


def _first_of_narrow_table(found: Sequence[Row], least: int, first: int) -> int:
    """The first record of a table with fewer filled columns, if it has more records than the table after it.

    A sheet may have several tables below one another; the width of all of them is the widest table's.
    """
    tabular = [number for number, row in enumerate(found) if number >= least and row.filled > 2]
    before = [number for number in tabular if number < first]
    return before[0] if 2 * len(before) > len(tabular) else first


def _stands_apart(found: Sequence[Row], number: int, width: int) -> bool:
    """Whether a blank line separates a record, and other narrow ones after it, from the records of the table."""
    for row, following in itertools.pairwise(found[number:]):
        if len(row.cells) >= width:
            return False
        if following.first != row.after:
            return len(following.cells) >= width
    return False


def _belongs(row: Row, width: int) -> bool:
    """Whether a record may be one of a table, by how many of its cells are filled."""
    least = 1 if width == 2 and len(row.cells) == 2 else max(2, (width + 1) // 2)
    return row.filled >= least and len(row.cells) > width // 2


def _is_narrower(found: Sequence[Row], number: int, width: int) -> bool:
    """Whether the records after one are all as wide as the table, so that a much wider one is none of it."""
    following = found[number + 1 : number + 4]
    return len(following) > 1 and all(len(row.cells) == width for row in following)


def _is_followed(found: Sequence[Row], number: int, width: int) -> bool:
    following = found[number + 1 : number + 4]
    near = sum(width // 2 < len(row.cells) <= width + 1 and row.filled > 0 for row in following)
    return near * 2 >= len(following)


def _after_table(found: Sequence[Row], first: int, width: int) -> int:
    """After which record the table ends; what follows are sums and remarks."""
    last = len(found)
    if width == 1:
        return last
    usual = sorted(row.filled for row in found[first:])[len(found[first:]) // 2]
    other = found[(first + last) // 2].cells[0]
    while last > first + 2:
        row = found[last - 1]
        is_narrow = len(row.cells) < width and row.filled <= max(1, width // 3)
        is_empty = not row.filled
        is_sum = bool(_SUMMARY.match(row.cells[0] or next(filter(None, row.cells), "")))
        is_text = row.filled == 1 and usual > 2 and len(row.cells[0].strip()) > 1
        is_like_others = bool(_VALUE.fullmatch(row.cells[0].strip())) and bool(_VALUE.fullmatch(other.strip()))
        is_total = bool(_SUM_ALONE.fullmatch(_first_cell(row))) and _adds_up(row, found[first + 1 : last - 1])
        if is_like_others or not (is_narrow or is_empty or (is_sum and row.filled < usual) or is_text or is_total):
            break
        last -= 1
    return last if len(found) - last <= max(10, len(found) // 10) else len(found)


def _adds_up(row: Row, above: Sequence[Row]) -> bool:
    """Whether a number of a record is the sum of the numbers above it, not all of which are zero."""
    for place, cell in enumerate(row.cells):
        for point in ".,":
            wanted = _number(cell, point)
            numbers = [_number(other.cells[place], point) for other in above if place < len(other.cells)]
            known = [number for number in numbers if number is not None]
            if wanted and len(known) > 1 and abs(sum(known) - wanted) <= 1e-9 * abs(wanted) + 0.011:
                return True
    return False


def _number(text: str, point: str) -> float | None:
    """The number in a text, whatever separates its groups of digits; None where it is none."""
    digits = re.sub(r"[$€£¥%' \u00a0\u202f’" + (",]" if point == "." else ".]"), "", text).replace(point, ".")
    return float(digits) if re.fullmatch(r"[+-]?[0-9]+(?:\.[0-9]+)?", digits) else None


def _first_cell(row: Row) -> str:
    return next((cell.strip() for cell in row.cells if cell.strip()), "")


def _names_sum(cell: str) -> bool:
    return bool(_SUMMARY.match(cell) or _SUM_OF_GROUP.fullmatch(cell.strip()))


@dataclass(frozen=True)
class Totals:
    """Records that count others again.

    Args:
        rows: the numbers of the records with a word for totals or balances, from 1.
        has_balances: whether some of them are balances.
        empty: the place of a column that is empty in these records and in no others, from 0; None if there is none.
        is_last: whether the last record may be a total, too: it has fewer values than usual, and none in the first
            column, which all others fill.
    """

    rows: list[int]
    has_balances: bool = False
    empty: int | None = None
    is_last: bool = False


def totals(records: Sequence[Row]) -> Totals:
    """Find the records that are totals or balances of others."""
    if len(records) < 3:
        return Totals([])
    usual = sorted(row.filled for row in records)[len(records) // 2]
    named = {number for number, row in enumerate(records, 1) if _SUM_ALONE.fullmatch(_first_cell(row))}
    if len(named) > max(1, _MOST_SUMS * len(records)):
        named = set()
    said, has_balances = [], False
    for number, row in enumerate(records, 1):
        is_short = row.filled < usual
        is_balance = is_short and _is_balance(row, usual)
        has_balances |= is_balance
        if number in named or is_balance or (is_short and any(map(_names_sum, filter(None, row.cells)))):
            said.append(number)
    last = records[-1]
    others = sum(not row.cells[0].strip() for row in records[:-1])
    is_last = last.filled < usual and not last.cells[0].strip() and not others and len(records) not in said
    return Totals(said, has_balances, _empty_alone(records, said), is_last and last.filled > 0)


def _is_balance(row: Row, usual: int) -> bool:
    """Whether a record has at most half as many values as usual, one of which names a balance."""
    return 2 * row.filled <= usual and any(_BALANCE.fullmatch(cell.strip()) for cell in row.cells)


def _empty_alone(records: Sequence[Row], said: Sequence[int]) -> int | None:
    """The place of the first column that is empty in some records and filled in all others."""
    numbers = set(said)
    places = range(max(len(row.cells) for row in records)) if numbers else range(0)
    for place in places:
        filled = [place < len(row.cells) and bool(row.cells[place].strip()) for row in records]
        if all(is_filled != (number in numbers) for number, is_filled in enumerate(filled, 1)):
            return place
    return None


# ---- another table ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Another:
    """The header of another table below the first records of a table.

    Args:
        header: its record.
        row: its number among the records, from 1.
        above: the last record of the table above it.
    """

    header: Row
    row: int
    above: Row


def another(one: Table) -> Another | None:
    """Find the first header of another table: after a blank line, a title or an empty record; None if there is none."""
    below = _another_below(one.names, one.width, one.body) if one.names is not None else None
    return None if below is None else Another(one.body[below[0]], below[0] + 1, one.body[below[1] - 1])


def _another_below(names: Sequence[str], width: int, body: Sequence[Row]) -> tuple[int, int] | None:
    """The place of another table's header among records, and how many records stand above the gap before it."""
    for place in range(1, len(body) - 2) if width > 1 else ():
        row, before = body[place], body[place - 1]
        if row.first == before.after and not _is_between(before, width):
            continue
        end = place
        while end and _is_between(body[end - 1], width):
            end -= 1
        below = _until_gap(body[place + 1 : place + 1 + _NEAR_RECORDS], row.after)
        above = body[max(0, end - _NEAR_RECORDS) : end]
        if above and len(below) > 1 and _is_other_header(row, names, above, below):
            return place, end
    return None


def _is_between(row: Row, width: int) -> bool:
    """Whether a record may stand between two tables: it is empty, or a title in its first cell."""
    return not any(row.cells[1:] if width > 2 else row.cells)


def _until_gap(rows: Sequence[Row], after: int) -> Sequence[Row]:
    """The records before the first blank line or empty record."""
    for place, row in enumerate(rows):
        if row.first != after or not row.filled:
            return rows[:place]
        after = row.after
    return rows


def _is_other_header(row: Row, names: Sequence[str], above: Sequence[Row], below: Sequence[Row]) -> bool:
    """Whether a record names the columns below it, and these are other columns than those above it."""
    cells = [cell.strip() for cell in row.cells]
    filled = [cell for cell in cells if cell]
    is_named = all(_NAME.fullmatch(cell) and not _VALUE.fullmatch(cell) for cell in filled)
    if len(filled) < 2 or len(set(filled)) < len(filled) or not is_named or _names_sum(filled[0]):
        return False
    if not {cell.casefold() for cell in filled}.isdisjoint(_NULL_WORDS) or tuple(cells) == tuple(names):
        return False
    typed, is_other = 0, False
    for place, cell in enumerate(cells):
        if cell and any(place < len(other.cells) and other.cells[place].strip() == cell for other in (*above, *below)):
            return False
        here, there = _share_of_values(place, below), _share_of_values(place, above)
        if cell and here is not None:
            typed += here > 0.8
            is_other |= (there is not None and abs(here - there) > 0.6) or cell in names
    return typed > 1 or (typed > 0 and is_other)


def _share_of_values(place: int, rows: Sequence[Row]) -> float | None:
    """The part of a column's filled cells that are numbers, dates or times; None if no cell is filled."""
    column = [row.cells[place].strip() for row in rows if place < len(row.cells) and row.cells[place].strip()]
    return sum(bool(_VALUE.fullmatch(cell)) for cell in column) / len(column) if column else None


# ---- the header ------------------------------------------------------------------------------------


def _header_rows(inside: Sequence[Row]) -> int:
    """The number of records that name the columns."""
    body = [row for row in inside[1 : _BODY_RECORDS + 1] if row.cells != inside[0].cells]
    if not _is_header(inside[0], _first_block(body)):
        return 0
    count = 1
    while count < min(_MOST_HEADER_ROWS, len(inside) - 1):
        row = inside[count]
        below = inside[count + 1 : count + 1 + _BODY_RECORDS]
        is_same = row.cells == inside[0].cells and inside[count - 1].cells == row.cells
        if not is_same and not _continues(row, inside[0], below):
            if not _has_headings(row) or not below or not _continues(below[0], row, below[1:]):
                break
            count += 1
        count += 1
    return count


def _has_headings(row: Row) -> bool:
    """Whether a record may be a row of headings over several columns: some cells are empty, and none is a value."""
    return 0 < row.filled < len(row.cells) and not any(_VALUE.fullmatch(cell.strip()) for cell in row.cells if cell)


def _first_block(body: Sequence[Row]) -> Sequence[Row]:
    """The records before the first empty one, which may end a table; all of them where these are very few."""
    end = next((number for number, row in enumerate(body) if not row.filled), len(body))
    return body[:end] if end > 2 else body


def _is_header(row: Row, body: Sequence[Row]) -> bool:
    """Whether a record names columns, judged by its differences from the records below."""
    cells = row.cells
    if not body:
        return all(_NAME.fullmatch(cell.strip()) for cell in cells if cell) and any(cells)
    periods = _periods(row, body)
    points = 0.0
    for place, cell in enumerate(cells):
        column = [other.cells[place] for other in body if place < len(other.cells) and other.cells[place].strip()]
        points += 1.0 if place in periods else _points(cell.strip(), column)
    return points > 0


def _is_other_than(row: Row, body: Sequence[Row]) -> bool:
    """Whether a header is surely none of the records below it, or there are none."""
    usual = Counter(len(other.cells) for other in body).most_common(1)
    if not usual or usual[0][0] != len(row.cells) or not all(row.cells):
        return True
    for place, cell in enumerate(row.cells):
        column = [other.cells[place].strip() for other in body if place < len(other.cells)]
        below = sum(bool(_VALUE.fullmatch(text)) for text in column)
        if not _VALUE.fullmatch(cell.strip()) and 2 * below > sum(map(bool, column)):
            return True
    return False


def _periods(row: Row, body: Sequence[Row]) -> set[int]:
    """The places of headings that are years, months or days; the cells below them are none."""
    found: set[int] = set()
    for form in (_YEAR, _DAY_OR_MONTH):
        places = [place for place, cell in enumerate(row.cells) if form.fullmatch(cell.strip())]
        texts = [row.cells[place].strip() for place in places]
        below = [other.cells[place].strip() for place in places for other in body if place < len(other.cells)]
        differ = sum(not form.fullmatch(text) for text in below)
        if len(set(texts)) == len(texts) > 1 and differ > 0.5 * len(below):
            is_row = form is not _YEAR or {abs(int(b) - int(a)) for a, b in itertools.pairwise(texts)} == {1}
            found.update(places if is_row else ())
    return found


def _points(cell: str, column: list[str]) -> float:
    """A score for how much a cell looks like a column name; negative if it looks like a value."""
    if not cell:
        return -0.1
    is_value = bool(_VALUE.fullmatch(cell))
    if not column:
        return -0.3 if is_value else 0.2
    values = sum(bool(_VALUE.fullmatch(text)) for text in column) / len(column)
    if values > 0.8:
        return -1.0 if is_value else 1.0
    if is_value:
        return -0.7
    if cell in column:
        return -0.6
    points = 0.15 if _NAME.fullmatch(cell) else 0.0
    lengths = [len(text) for text in column[:200]]
    if len(column) > 2 and not min(lengths) <= len(cell) <= max(lengths):
        points += 0.3
    return points


def _continues(row: Row, first: Row, below: Sequence[Row]) -> bool:
    """Whether a record goes on with the header above it: texts where the columns below have other values.

    If some headings span several columns, a heading over a single column may have an empty cell in the second row.
    """
    if len(below) < 3 or len(row.cells) < len(first.cells) - 1:
        return False
    above = [cell.strip() for cell in first.cells]
    is_grouped = any(cell.strip() and not head for head, cell in zip(above, row.cells, strict=False))
    typed = texts = alone = 0
    for place, cell in enumerate(row.cells):
        column = [other.cells[place] for other in below if place < len(other.cells) and other.cells[place].strip()]
        if column and sum(bool(_VALUE.fullmatch(text)) for text in column) / len(column) > 0.9:
            typed += 1
            texts += bool(cell.strip()) and not _VALUE.fullmatch(cell.strip())
            alone += not cell.strip() and place < len(above) and bool(above[place])
    return typed >= 2 and texts > 0 and texts + (alone if is_grouped else 0) == typed


def _with_odd_header(
    text: str, found: Sequence[Row], first: int, width: int, signs: Signs, *, is_end: bool
) -> Table | None:
    """The table below a header that has a quote, a delimiter or an empty name too many, or other delimiters."""
    if width < 3 or signs.separator or signs.escape:
        return None
    lines = list(io.StringIO(text, newline=""))
    body = [row for row in found[first + 1 : first + 200] if len(row.cells) == width]
    for row in found[max(first - 1, 0) : first + 1]:
        if len(row.cells) == width and row.after == row.first + 1:
            continue
        names = _odd_names(lines[row.first].rstrip("\r\n"), width, signs)
        if names is None or not _is_header(Row(names, row.first, row.first + 1), body):
            continue
        below = find("".join(lines[row.first + 1 :]), signs, is_end=is_end)
        if below is not None and below.names is None and not below.skipped and below.width == width:
            below.names, below.is_header_skipped, below.skipped = names, True, row.first
            below.titles = [" ".join(filter(None, other.cells)) for other in found if other.after <= row.first]
            below.after = below.lines = 0
            return below
    return None


def _take_header_comment(table: Table, line: str) -> None:
    """Take the names in a comment right before the records, if there is one for each column."""
    names = _odd_names(line, table.width, table.signs) if table.width > 1 else None
    if names is not None and _is_header(Row(names, 0, 1), table.body):
        table.names, table.is_header_skipped, table.is_header_comment = names, True, True


def _odd_names(line: str, width: int, signs: Signs) -> tuple[str, ...] | None:
    """The names in a line that is no record of the usual form: as many as there are columns, none of them empty."""
    for delimiter in dict.fromkeys((signs.delimiter, ",", ";", "\t", "|", " ")):
        cells = [cell.strip() for cell in _loosely(line, delimiter, signs.quote)]
        while len(cells) > width and not cells[-1]:
            cells.pop()
        if len(cells) == width + 1 and cells.count("") == 1:
            cells.remove("")
        if len(cells) == width and all(cells) and len(set(cells)) == width:
            return tuple(cells)
    return None


def _loosely(line: str, delimiter: str, quote: str) -> list[str]:
    """The cells of a line in which a quote counts only where it is closed before a delimiter, or at the end."""
    if not quote:
        return line.split(delimiter)
    mark, sign = re.escape(quote), re.escape(delimiter)
    cell = re.compile(rf"{mark}((?:[^{mark}]|{mark}{mark})*){mark}(?={sign}|$)|((?:(?!{sign}).)*)", re.DOTALL)
    cells, at = [], 0
    while True:
        found = cell.match(line, at)
        assert found is not None  # the second way takes nothing, too
        quoted = found[1]
        cells.append(found[2] if quoted is None else quoted.replace(2 * quote, quote))
        if found.end() >= len(line):
            return cells
        at = found.end() + len(delimiter)
        if at >= len(line):
            return [*cells, ""]


def _names(header: Sequence[Row]) -> tuple[str, ...]:
    """The names in a header. Those of several header records are joined as the CSV reader does it."""
    if len(header) == 1:
        return header[0].cells
    width = max(len(row.cells) for row in header)
    parts = [[row.cells[place].strip() if place < len(row.cells) else "" for row in header] for place in range(width)]
    return tuple("_".join(filter(None, column)) for column in parts)


def names_of_groups(header: Sequence[Row]) -> tuple[str, ...]:
    """The names of a header of several records whose headings stand over several columns, as merged cells do.

    >>> names_of_groups([Row(("", "May", "", "Day"), 0, 1), Row(("id", "net", "gross", ""), 1, 2)])
    ('id', 'May_net', 'May_gross', 'Day')
    """
    last = header[-1].cells
    filled = []
    for row in header[:-1]:
        cells = list(row.cells)
        for place in range(1, len(cells)):
            if not cells[place].strip() and place < len(last) and last[place].strip():
                cells[place] = cells[place - 1]
        filled.append(Row(tuple(cells), row.first, row.after))
    return _names([*filled, header[-1]])


def _take_header_width(table: Table) -> None:
    """Take the number of columns from the header, unless the records contradict it."""
    if table.names is None:
        return
    named = len(table.names)
    longer = [row for row in table.body if len(row.cells) > named]
    spare = [row.cells[-1].strip() for row in longer if len(row.cells) == named + 1]
    if longer and len(longer) == len(spare) == len(table.body) and all(spare) and len(longer) > 1:
        # Tables written by R: the first column has the names of rows, and no name itself.
        table.names = ("row", *table.names)
        table.has_row_names = table.is_header_skipped = True
        named += 1
    table.width = named
