"""Days, moments and times of day, which workbooks store as numbers of days; the cell's format determines which it is.

A workbook counts days from 1900 or from 1904 on. In the first system there is a 29 February 1900, as in the program
that it was made for; the days before it are one less. Moments are exact to the millisecond, as spreadsheets show them.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAY_MS = 86_400_000
#: The number of the day that never was.
_NO_DAY = 60


class Kind(IntEnum):
    """The kinds of values that a cell may hold."""

    NOTHING = 0
    TEXT = 1
    NUMBER = 2
    BOOL = 3
    DATE = 4
    MOMENT = 5
    TIME = 6
    DURATION = 7
    ERROR = 8
    ISO = 9


#: The builtin number formats, which a workbook names by number alone; 27 to 58 depend on the language and are dates.
_BUILT_IN: dict[int, Kind] = {
    **dict.fromkeys((14, 15, 16, 17, *range(27, 32), 36, *range(50, 59)), Kind.DATE),
    **dict.fromkeys((18, 19, 20, 21, 45, 47, *range(32, 36)), Kind.TIME),
    22: Kind.MOMENT,
    46: Kind.DURATION,
}
#: Parts of a format's text that are no part of a date: quoted and escaped characters, colours, conditions, currencies,
#: blanks of a character's width, and fillers.
_ASIDE = re.compile(r'"[^"]*"?|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]?', re.IGNORECASE | re.DOTALL)
_ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
_AM_PM = re.compile(r"am/pm|a/p|上午/下午", re.IGNORECASE)
_GENERAL = re.compile(r"general", re.IGNORECASE)


def kind_of(number: int, texts: Mapping[int, str]) -> Kind:
    """The kind of numbers in cells of a format; `texts` are the formats that the workbook defines."""
    text = texts.get(number)
    return _BUILT_IN.get(number, Kind.NUMBER) if text is None else _kind_of_text(text)


def digits_of(number: int, texts: Mapping[int, str]) -> int:
    """Give the number of digits that a format pads whole numbers to: 5 for `00000`; 0 if it is not for codes."""
    text = texts.get(number, "")
    return len(text) if len(text) > 1 and not text.strip("0") else 0


def _kind_of_text(text: str) -> Kind:
    """The kind according to the first section of a format. Other sections are for negative numbers and for texts."""
    plain = _ASIDE.sub("", text).partition(";")[0]
    if _ELAPSED.search(plain):
        return Kind.DURATION
    clock = _AM_PM.sub("h", _GENERAL.sub("", plain)).lower()
    has_time = "h" in clock or "s" in clock
    # Months and minutes are both written with an m.
    if "y" in clock or "d" in clock or ("m" in clock and not has_time):
        return Kind.MOMENT if has_time else Kind.DATE
    return Kind.TIME if has_time else Kind.NUMBER


class Unknown(Exception):
    """A number that is no day in a workbook; the message says why."""


def value_of(number: float, kind: Kind, *, from_1904: bool) -> date | datetime | str:
    """The value of a number of days: times of day and durations are texts.

    Args:
        number: the days since the system's beginning.
        kind: `DATE`, `MOMENT`, `TIME` or `DURATION`.
        from_1904: whether the workbook counts from 1904 on.

    Raises:
        Unknown: there is no such day.
    """
    if kind is Kind.DURATION:
        return _clock(round(number * _DAY_MS))
    milliseconds = round(number * _DAY_MS)
    day, rest = divmod(milliseconds, _DAY_MS)
    if kind is Kind.TIME and 0 <= day < 1:
        return _clock(rest)
    first = _day(day, from_1904=from_1904)
    if kind is Kind.DATE and not rest:
        return first
    return datetime(first.year, first.month, first.day) + timedelta(milliseconds=rest)


def _day(day: int, *, from_1904: bool) -> date:
    if from_1904:
        start, is_there = date(1904, 1, 1), day >= 0
    else:
        start = date(1899, 12, 31) if day < _NO_DAY else date(1899, 12, 30)
        is_there = day >= 1 and day != _NO_DAY
    if not is_there:
        raise Unknown("29 February 1900" if day == _NO_DAY else f"day {day}")
    try:
        return start + timedelta(days=day)
    except OverflowError:
        raise Unknown(f"day {day}") from None


def _clock(milliseconds: int) -> str:
    """A time of day, or hours, minutes and seconds that may be more."""
    sign = "-" if milliseconds < 0 else ""
    seconds, rest = divmod(abs(milliseconds), 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{sign}{hour:02}:{minute:02}:{second:02}" + (f".{rest:03}" if rest else "")


_ISO = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?Z?)?", re.ASCII)


def of_iso(text: str) -> date | datetime | None:
    """The value of a cell with a date as text; None for other texts."""
    if _ISO.fullmatch(text) is None:
        return None
    try:
        return date.fromisoformat(text) if "T" not in text else datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        return None
