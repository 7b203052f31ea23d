"""`pipeline.date_locale`: the names of a language's months and weekdays, as Babel has them from the CLDR.

They are looked up here, on the driver, and travel with the formats: executors do not need Babel.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from spark_jobs.cxl.dates import calendar


@cache
def header(locale: str) -> str:
    """The prefix of formats in this language (`date_names.header`).

    Raises:
        ValueError: there is no such language.
    """
    # Only pipelines with a locale need it, and it takes a while to import.
    import babel

    try:
        found = babel.Locale.parse(locale, sep="-" if "-" in locale else "_")
    except (ValueError, babel.UnknownLocaleError):
        raise ValueError(f"`{locale}` is not a language of the CLDR") from None
    return calendar.header(
        calendar.Names(
            months=_names(found.months, "wide", range(1, 13)),
            short_months=_names(found.months, "abbreviated", range(1, 13)),
            days=_names(found.days, "wide", range(7)),
            short_days=_names(found.days, "abbreviated", range(7)),
            halves=_halves(found.day_periods["format"]),
        )
    )


def _names(table: Any, width: str, keys: Any) -> tuple[calendar.Name, ...]:
    """The names as they stand within dates, then as they stand alone, and both without their last point."""
    found = []
    for key in keys:
        tables = [table[context][width] for context in ("format", "stand-alone")]
        spellings = [str(one[key]) for one in tables if key in one]
        found.append(tuple(dict.fromkeys([*spellings, *(one.rstrip(".") for one in spellings)])))
    return tuple(found)


def _halves(periods: Any) -> tuple[calendar.Name, ...]:
    """Many languages have no long form of these."""
    width = next((width for width in ("wide", "abbreviated") if {"am", "pm"} <= set(periods[width])), None)
    return ((str(periods[width]["am"]),), (str(periods[width]["pm"]),)) if width else calendar.ENGLISH.halves
