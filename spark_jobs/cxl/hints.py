"""Hints for texts that do not convert, if the text shows what to do.

A hint is appended to the usual message. Patterns mean the same in Python and in RE2, which searches whole columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from spark_jobs.cxl.types import Kind

_TIMES = (Kind.DATE, Kind.DATETIME)


@dataclass(frozen=True)
class Hint:
    """The hint for texts of a form under some types."""

    kinds: tuple[Kind, ...]
    pattern: str
    words: str


_OFFSET = r"^\s*[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ][0-9]{2}:?[0-9]{2}[0-9:.,]*\s*([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)\s*$"
#: Hints of programs.
IN_PROGRAMS = (Hint(_TIMES, _OFFSET, ": it has an offset, which a format with `%z` reads"),)
#: Hints of sources for columns that name neither a zone nor a format.
OF_COLUMNS = (
    Hint(
        _TIMES,
        _OFFSET,
        ": it has an offset; say in which zone the column is with `timezone: UTC`, or read it by a `format` with `%z`",
    ),
    Hint(
        (Kind.DATE,),
        r"^\s*[0-9]{1,2}[./ -][0-9]{1,2}[./ -]([0-9]{2}|[0-9]{4})\s*$",
        ": say the form of the column's dates, such as `format: '%d.%m.%Y'`",
    ),
)

#: Dates with a year of two digits, under a form that reads four.
SHORT_YEARS = (
    Hint(
        (Kind.DATE,),
        r"^\s*[0-9]{1,2}[./ -][0-9]{1,2}[./ -][0-9]{2}\s*$",
        ": the column's `format` has `%Y`, which reads four digits; `%y` reads two",
    ),
)


@lru_cache(maxsize=8)
def of_kind(hints: tuple[Hint, ...], kind: Kind) -> tuple[Hint, ...]:
    """The hints for values of a kind."""
    return tuple(hint for hint in hints if kind in hint.kinds)


def of_text(hints: tuple[Hint, ...], kind: Kind, text: str) -> str:
    """The hint for a text, empty if there is nothing to say."""
    found = (hint.words for hint in of_kind(hints, kind) if re.search(hint.pattern, text, re.ASCII))
    return next(found, "")
