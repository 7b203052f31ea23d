"""Dates and date-times as sources may spell them (spec/formats.md 2; decisions 26, 57 and 78).

ISO first, then the formats that the pipeline lists under `date_formats`, then the other built-in forms. A format must
take up the whole text; numeric fields take one digit up to their width and skip white space before them. Names of
months and days are the English ones in any letter case; all other characters must be the format's own.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import lru_cache

_ISO_DATE = "%Y-%m-%d"
_OTHER_DATES = ("%m/%d/%Y", "%Y/%m/%d", "%m-%d-%Y")
#: With a fraction too: what a writer gave can be read again.
_ISO_MOMENTS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")
_OTHER_MOMENTS = ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M")

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

#: What a specifier may stand for in a text; the group's name says which field it fills.
_FIELDS = {
    "Y": r"\s*(?P<year>[0-9]{1,4})",
    "y": r"\s*(?P<short_year>[0-9]{1,2})",
    "m": r"\s*(?P<month>[0-9]{1,2})",
    "d": r"\s*(?P<day>[0-9]{1,2})",
    "e": r"\s*(?P<day>[0-9]{1,2})",
    "j": r"\s*(?P<ordinal>[0-9]{1,3})",
    "H": r"\s*(?P<hour>[0-9]{1,2})",
    "I": r"\s*(?P<half_hour>[0-9]{1,2})",
    "M": r"\s*(?P<minute>[0-9]{1,2})",
    "S": r"\s*(?P<second>[0-9]{1,2})",
    "f": r"(?P<fraction>[0-9]{1,9})",
    "p": r"(?P<half>[AaPp][Mm])",
    "b": "(?P<month_name>(?i:" + "|".join(f"{name}|{name[:3]}" for name in _MONTHS) + "))",
    "a": "(?i:" + "|".join(f"{name}|{name[:3]}" for name in _DAYS) + ")",
    "%": "%",
    "n": r"\s*",
    "t": r"\s*",
}
_SAME = {"B": "b", "h": "b", "A": "a", "P": "p"}
_COMPOSED = {"F": "%Y-%m-%d", "D": "%m/%d/%y", "T": "%H:%M:%S", "R": "%H:%M"}


def to_date(text: str, date_formats: tuple[str, ...] = ()) -> date:
    """The date that a text spells.

    Raises:
        ValueError: no form fits, or there is no such day.
    """
    return _first((_ISO_DATE, *date_formats, *_OTHER_DATES), text).date()


def to_datetime(text: str, date_formats: tuple[str, ...] = ()) -> datetime:
    """The date-time that a text spells; a format of `date_formats` without a time of day does not count.

    Raises:
        ValueError: no form fits, or there is no such moment.
    """
    timed = tuple(form for form in date_formats if has_time(form))
    return _first((*_ISO_MOMENTS, *timed, *_OTHER_MOMENTS), text)


def format_problem(form: str) -> str | None:
    """Why a date format cannot be used, or None when it can."""
    try:
        pattern = _pattern(form)
    except ValueError as problem:
        return str(problem)
    except re.error:
        return "the format names a field twice"
    fields = set(pattern.groupindex)
    if not fields & {"year", "short_year"}:
        return "the format has no year"
    if "ordinal" not in fields and not ("day" in fields and fields & {"month", "month_name"}):
        return "the format has no day and month"
    return None


def has_time(form: str) -> bool:
    """Whether a format has at least hour and minute."""
    fields = _pattern(form).groupindex
    return "minute" in fields and ("hour" in fields or "half_hour" in fields)


def parse(text: str, form: str) -> datetime:
    """The moment that a text spells in one format; absent time fields are zero.

    Raises:
        ValueError: the text does not have this format, or there is no such moment.
    """
    found = _pattern(form).fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not of the form '{form}'")
    fields = found.groupdict()
    day = _day(fields)
    return datetime(
        day.year,
        day.month,
        day.day,
        _hour(fields),
        int(fields.get("minute") or 0),
        int(fields.get("second") or 0),
        _micros(fields),
    )


def _first(forms: tuple[str, ...], text: str) -> datetime:
    for form in forms:
        try:
            return parse(text, form)
        except ValueError:
            continue
    raise ValueError(f"'{text}' is no date of a known form")


def _day(fields: dict[str, str | None]) -> date:
    year = fields.get("year")
    if year is not None:
        number = int(year)
    else:
        short = int(fields["short_year"] or 0)
        number = short + (1900 if short >= 70 else 2000)
    if (ordinal := fields.get("ordinal")) is not None:
        day = date(number, 1, 1) + timedelta(days=int(ordinal) - 1)
        if day.year != number:
            raise ValueError(f"year {number} has no day {ordinal}")
        return day
    name = fields.get("month_name")
    month = int(fields.get("month") or 0) if name is None else _month_number(name)
    return date(number, month, int(fields.get("day") or 0))


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()))


def _hour(fields: dict[str, str | None]) -> int:
    half = fields.get("half_hour")
    if half is None:
        return int(fields.get("hour") or 0)
    if not 1 <= int(half) <= 12:
        raise ValueError(f"hour {half} is not on a clock face")
    return int(half) % 12 + (12 if (fields.get("half") or "am").lower() == "pm" else 0)


def _micros(fields: dict[str, str | None]) -> int:
    return int((fields.get("fraction") or "0").ljust(9, "0")[:6])


@lru_cache(maxsize=256)
def _pattern(form: str) -> re.Pattern[str]:
    """A format as a regular expression; `re.error` for a field that occurs twice, `ValueError` for an unknown one."""
    parts = []
    position = 0
    while position < len(form):
        character = form[position]
        position += 1
        if character != "%":
            parts.append(r"\s+" if character.isspace() else re.escape(character))
            continue
        specifier = form[position : position + 1]
        position += 1
        if specifier in _COMPOSED:
            parts.append(_pattern(_COMPOSED[specifier]).pattern)
            continue
        field = _FIELDS.get(_SAME.get(specifier, specifier))
        if field is None:
            raise ValueError(f"'%{specifier}' is no field of a date format")
        parts.append(field)
    return re.compile("".join(parts), re.ASCII)
