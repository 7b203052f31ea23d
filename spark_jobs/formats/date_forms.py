"""Dates and date-times as sources may spell them.

ISO first, then the formats that the pipeline lists under `date_formats`, then the other built-in forms. A format means
the same as in CXL (`cxl/dates/strftime.py`), and it must take up the whole text. Where one of the pipeline's formats
has the day before the month, a built-in form with the month first does not read what could be another day with the day
first: nobody knows whether `03/04/2026` is in March or a slip for `03.04.2026`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_jobs.cxl.dates import strftime as language
from spark_jobs.cxl.dates import zones

if TYPE_CHECKING:
    from datetime import date, datetime

_ISO_DATE = "%Y-%m-%d"
_OTHER_DATES = ("%m/%d/%Y", "%Y/%m/%d", "%m-%d-%Y")
#: With a fraction too, so that texts of writers can be read again.
_ISO_MOMENTS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")
#: With an offset, where a column names its zone. White space in a format may be missing in a text.
_ISO_IN_ZONES = ("%Y-%m-%dT%H:%M:%S%.f %z", "%Y-%m-%d %H:%M:%S%.f %z", "%Y-%m-%dT%H:%M %z", "%Y-%m-%d %H:%M %z")
_FRACTION = r"(\.[0-9]{1,6})?"
_OFFSET = r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_OTHER_MOMENTS = ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M")
_MONTHS = 12
#: A code of a format; a percent sign, too.
_CODE = re.compile("%[-_0]?(.)", re.DOTALL)


def zoned(zone: str, forms: tuple[str, ...]) -> tuple[str, ...]:
    """The forms of a column that names its zone: the ISO ones with an offset first."""
    return tuple(zones.zoned(zone, form) for form in (*_ISO_IN_ZONES, *forms))


def _usual_offsets() -> dict[str, str]:
    """Formats whose texts Arrow reads, with what may follow their seconds."""
    ends = {"%z": _OFFSET, "%:z": _OFFSET, "Z": "Z", " %z": _OFFSET}
    seconds = {"%S": "", "%S%.f": _FRACTION}
    return {
        f"%Y-%m-%d{between}%H:%M:{second}{end}": f"{between}([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]{fraction}{offset}$"
        for between in "T "
        for second, fraction in seconds.items()
        for end, offset in ends.items()
    }


_USUAL_OFFSETS = _usual_offsets()
_DAY = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"


def _is_unclear(day: date, form: str, date_formats: tuple[str, ...]) -> bool:
    """Whether a built-in form with the month first has read a day that may be another one with the day first."""
    return form.startswith("%m") and day.day <= _MONTHS and day.day != day.month and _has_day_first(date_formats)


@lru_cache(maxsize=64)
def _has_day_first(date_formats: tuple[str, ...]) -> bool:
    return any(map(_is_day_first, date_formats))


def _is_day_first(form: str) -> bool:
    """Whether a day of a month stands before its month, by number or name."""
    codes = _CODE.findall(form.replace("%v", "%e-%b-%Y"))
    day = next((place for place, code in enumerate(codes) if code in "de"), None)
    month = next((place for place, code in enumerate(codes) if code in "mbBh"), None)
    return day is not None and month is not None and day < month


@lru_cache(maxsize=64)
def usual_offset(forms: tuple[str, ...]) -> tuple[str, str] | None:
    """The pattern of texts with an offset that the first form reads, as Arrow does, and the zone they get."""
    zone, plain = zones.split(forms[0]) if forms else (None, "")
    if plain not in _USUAL_OFFSETS:
        return None
    return _DAY + _USUAL_OFFSETS[plain], zone or zones.UTC_ZONE


def to_date(text: str, date_formats: tuple[str, ...] = ()) -> date:
    """The date that a text spells.

    Raises:
        ValueError: no form fits, or there is no such day.
    """
    for form in (_ISO_DATE, *date_formats):
        day = language.parse_date(text, form)
        if day is not None:
            return day
    for form in _OTHER_DATES:
        day = language.parse_date(text, form)
        if day is not None and not _is_unclear(day, form, date_formats):
            return day
    raise ValueError(f"'{text}' is not a date in a known format")


def to_datetime(text: str, date_formats: tuple[str, ...] = ()) -> datetime:
    """The date-time that a text spells; a format of `date_formats` without a time of day does not count.

    Raises:
        ValueError: no form fits, or there is no such moment.
    """
    for form in (*_ISO_MOMENTS, *date_formats):
        moment = language.parse_datetime(text, form)
        if moment is not None:
            return moment
    for form in _OTHER_MOMENTS:
        moment = language.parse_datetime(text, form)
        if moment is not None and not _is_unclear(moment, form, date_formats):
            return moment
    raise ValueError(f"'{text}' is not a date in a known format")


def writing_problem(form: str) -> str | None:
    """Why a date format cannot be used to write with, or None when it can."""
    return language.complaint(form)


def format_problem(form: str) -> str | None:
    """Why a date format cannot be used to read with, or None when it can."""
    return language.reading_complaint(form) or language.gap(form)
