"""Dates and date-times as sources may spell them (spec/formats.md 2; decisions 26, 57 and 78).

ISO first, then the formats that the pipeline lists under `date_formats`, then the other built-in forms. What a format
means is what it means in CXL (`cxl/dates/strftime.py`), and it must take up the whole text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl.dates import strftime as language

if TYPE_CHECKING:
    from datetime import date, datetime

_ISO_DATE = "%Y-%m-%d"
_OTHER_DATES = ("%m/%d/%Y", "%Y/%m/%d", "%m-%d-%Y")
#: With a fraction too: what a writer gave can be read again.
_ISO_MOMENTS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")
_OTHER_MOMENTS = ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M")


def to_date(text: str, date_formats: tuple[str, ...] = ()) -> date:
    """The date that a text spells.

    Raises:
        ValueError: no form fits, or there is no such day.
    """
    for form in (_ISO_DATE, *date_formats, *_OTHER_DATES):
        day = language.parse_date(text, form)
        if day is not None:
            return day
    raise ValueError(f"'{text}' is no date of a known form")


def to_datetime(text: str, date_formats: tuple[str, ...] = ()) -> datetime:
    """The date-time that a text spells; a format of `date_formats` without a time of day does not count.

    Raises:
        ValueError: no form fits, or there is no such moment.
    """
    for form in (*_ISO_MOMENTS, *date_formats, *_OTHER_MOMENTS):
        moment = language.parse_datetime(text, form)
        if moment is not None:
            return moment
    raise ValueError(f"'{text}' is no date of a known form")


def writing_problem(form: str) -> str | None:
    """Why a date format cannot be used to write with, or None when it can."""
    return language.complaint(form)


def format_problem(form: str) -> str | None:
    """Why a date format cannot be used to read with, or None when it can."""
    return language.complaint(form) or language.gap(form)
