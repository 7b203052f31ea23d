"""The names of months, weekdays and halves of the day that date formats write and read.

English ones are here. Those of another language travel in front of a format, so that every place that takes a format
takes them with it, on executors too: `localized(header, "%d %B")`.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache

#: Stands before and after the names; no format has it.
_MARK = "\x1e"
#: A name: how it is written, and other ways in which it may be read.
Name = tuple[str, ...]


@dataclass(frozen=True)
class Names:
    """The names of a language, in the order of the calendar; weeks begin on Monday."""

    months: tuple[Name, ...]
    short_months: tuple[Name, ...]
    days: tuple[Name, ...]
    short_days: tuple[Name, ...]
    halves: tuple[Name, ...]

    @cached_property
    def of_months(self) -> dict[str, int]:
        """The number of each month's name, from 0, by the name without case."""
        return _numbers(self.months, self.short_months)

    @cached_property
    def of_days(self) -> dict[str, int]:
        """The names of weekdays."""
        return _numbers(self.days, self.short_days)

    @cached_property
    def of_halves(self) -> dict[str, int]:
        """The names of the halves of the day."""
        return _numbers(self.halves)


def _numbers(*kinds: tuple[Name, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for names in kinds:
        for number, spellings in enumerate(names):
            for spelling in spellings:
                found.setdefault(spelling.casefold(), number)
    return found


def _english(names: str) -> tuple[tuple[Name, ...], tuple[Name, ...]]:
    long = tuple((name,) for name in names.split())
    return long, tuple((name[:3],) for (name,) in long)


ENGLISH = Names(
    *_english("January February March April May June July August September October November December"),
    *_english("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    (("AM",), ("PM",)),
)


def header(names: Names) -> str:
    """The prefix of formats that use these names."""
    return f"{_MARK}{json.dumps(astuple(names), ensure_ascii=False)}{_MARK}"


def split(form: str) -> tuple[Names, str]:
    """The names of a format, and the format itself."""
    if not form.startswith(_MARK):
        return ENGLISH, form
    _, names, plain = form.split(_MARK, 2)
    return _read(names), plain


@lru_cache(maxsize=16)
def _read(names: str) -> Names:
    return Names(*(tuple(map(tuple, kind)) for kind in json.loads(names)))
