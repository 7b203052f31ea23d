"""Separates odd records from portions of lines, so that the fast path reads all others.

If Arrow's reader refuses a record and names it, the lines before and after it are read without it. If it names none,
each half is tried. The search stops after some attempts: the exact path reads the rest of the portion, and the next
portions get fewer attempts until one succeeds again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from spark_jobs.formats.json.fast import arrow
from spark_jobs.formats.json.texts import decoding, portions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.formats.json.texts.portions import Mask, Places, Portion

#: Attempts to read parts of a portion: each costs as much as some records in the exact way.
_MOST_ATTEMPTS = 32
_FEWEST_ATTEMPTS = 2
#: Lines that are inspected to learn the kinds of values.
_SAMPLE = 16


@dataclass
class Taken:
    """The parts that were read the fast way, by the places of their lines, ascending."""

    parts: list[tuple[Places, Any]] = field(default_factory=list)

    def left(self, count: int) -> list[int]:
        """Give the places of the other lines."""
        is_left = np.ones(count, dtype=np.bool_)
        for places, _ in self.parts:
            is_left[places] = False
        return [int(place) for place in np.flatnonzero(is_left)]


class QuickReader(Protocol):
    """Reads many objects at once, if there is no odd one among them."""

    def begin(self, lines: Portion) -> set[int]:
        """Begin a portion; returns the rows of objects that must not be read."""

    def read(self, text: bytes, count: int) -> tuple[Any, Mask | None]:
        """Read some objects; returns them, and a mask of the objects left out (None: every object was read).

        Raises:
            Refused: there is an odd one.
            NoInt: the same because of its number.
        """

    def learn(self, records: Sequence[dict[str, Any]], *, is_first: bool = False) -> bool:
        """Take the kinds of values from some records; tells whether objects are read in another way now."""

    def widen_ints(self, text: bytes, number: str) -> bool:
        """Read ints as floats because of a number; tells whether that changed anything."""


class Bisection:
    """Reads portions of lines as far as that is quick.

    Args:
        quick: reads many lines at once.
        few: a part of a portion is not worth an attempt if it has up to so many lines. A whole portion always is.
    """

    def __init__(self, quick: QuickReader, few: int) -> None:
        self._quick = quick
        self._few = few
        self._allowed = _MOST_ATTEMPTS
        self._has_learnt = False

    def read(self, lines: Portion) -> Taken:
        """Read the lines of a portion as far as that is quick; the result lists the rows that were not read."""
        taken = Taken()
        if not len(lines.places):
            return taken
        waiting = [np.delete(np.arange(len(lines.places)), sorted(self._quick.begin(lines)))]
        if not self._has_learnt:
            self._learn(lines, waiting[0][:_SAMPLE], is_first=True)
        attempts = 0
        while waiting and attempts < self._allowed:
            rows = waiting.pop()
            if len(rows) <= min(self._few, len(lines.places) - 1):
                continue
            attempts += 1
            text = lines.part(rows)
            try:
                batch, odd = self._quick.read(text, len(rows))
            except arrow.NoInt as problem:
                waiting += [rows] if self._quick.widen_ints(text, problem.number) else _halves(rows)
            except arrow.Refused as refused:
                waiting += self._smaller(lines, rows, text, refused)
            else:
                places = lines.places[rows]
                taken.parts.append((places if odd is None else places[~odd], batch))
        is_in_vain = bool(waiting)
        self._allowed = max(self._allowed // 2, _FEWEST_ATTEMPTS) if is_in_vain else _MOST_ATTEMPTS
        return taken

    def _learn(self, lines: Portion, rows: Places, *, is_first: bool = False) -> bool:
        """Take the kinds of values from some lines; tells whether that changed anything."""
        records = []
        for line in lines.part(rows).splitlines() if len(rows) else ():
            try:
                records.append(decoding.parse(line.decode()))
            except ValueError:
                continue
        self._has_learnt = True
        return self._quick.learn([record for record in records if isinstance(record, dict)], is_first=is_first)

    def _smaller(self, lines: Portion, rows: Places, text: bytes, refused: arrow.Refused) -> list[Places]:
        """Give the parts to try instead of refused lines, last first; all of them if they are read another way now."""
        at = refused.row
        if at is None or at >= len(rows):
            return _halves(rows)
        if self._learn(lines, rows[max(at - _SAMPLE // 2, 0) : at + _SAMPLE // 2]):
            return [rows]
        if refused.spelling is not None:
            # Where one value is of another kind, more of them are.
            ends = portions.line_ends(text)
            odd = np.unique(np.searchsorted(ends, [match.start() for match in refused.spelling.finditer(text)]))
            if at in odd:
                return [np.delete(rows, odd)]
        return [rows[at + 1 :], rows[:at]]


def _halves(rows: Places) -> list[Places]:
    middle = len(rows) // 2
    return [rows[middle:], rows[:middle]] if middle else []
