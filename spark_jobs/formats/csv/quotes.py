"""Where CSV records begin and end, without parsing them.

A line end ends a record unless it stands inside quotes. A quote opens a quoted field only at the field's start;
inside, a doubled quote is a literal one; any other quote is a character like the others. So the list of
places where "inside quotes" turns on or off is all that matters: the *toggles*. In regular files every quote is a
toggle, which is checked at memory speed; in others (`5" pipe`) the quotes are walked one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats import byte_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    #: Places in a stretch of bytes, ascending.
    Positions = NDArray[np.int64]

_NEWLINE, _RETURN = 10, 13
#: The toggles of a stretch without quotes.
NO_TOGGLES: Positions = np.empty(0, dtype=np.int64)
#: What stands before the first byte of a file, as far as quotes are concerned.
FILE_START = _NEWLINE


@dataclass(frozen=True)
class Dialect:
    """The bytes that structure a CSV file."""

    delimiter: int = ord(",")
    quote: int = ord('"')

    @cached_property
    def quote_byte(self) -> bytes:
        """The quote as bytes of length 1."""
        return bytes((self.quote,))

    @cached_property
    def _ends_field(self) -> NDArray[np.bool_]:
        table = np.zeros(256, dtype=np.bool_)
        table[[self.delimiter, _NEWLINE, _RETURN]] = True
        return table

    def toggles(self, data: bytes, is_inside: bool = False, before: int = FILE_START) -> Positions:
        """The positions of the quotes that open or close quoted text, in turn.

        Args:
            data: a stretch of a file. It must not end between the two halves of a doubled quote, unless nothing
                follows it that matters.
            is_inside: whether the stretch begins inside quotes.
            before: the byte before the stretch.
        """
        if data.find(self.quote_byte) < 0:
            return NO_TOGGLES
        array = np.frombuffer(data, dtype=np.uint8)
        quotes = np.flatnonzero(array == self.quote)
        if self._all_toggle(array, quotes, is_inside, before):
            return quotes
        return self._walk(data, quotes.tolist(), is_inside, before)

    def strays(self, data: bytes) -> tuple[Positions, NDArray[np.bool_]]:
        """The quotes of some complete records that stand where none belongs, in their order.

        Of each: whether it closes a cell behind which more text follows; the others stand within cells without quotes.
        """
        none = NO_TOGGLES, np.empty(0, dtype=np.bool_)
        if data.find(self.quote_byte) < 0:
            return none
        array = np.frombuffer(data, dtype=np.uint8)
        quotes = np.flatnonzero(array == self.quote)
        if self._all_toggle(array, quotes, False, FILE_START):
            return none
        toggles = self._walk(data, quotes.tolist(), False, FILE_START)
        others = np.setdiff1d(quotes, toggles, assume_unique=True)
        within = others[np.searchsorted(toggles, others) % 2 == 0]
        closers = toggles[1::2]
        closers = closers[closers + 1 < len(array)]
        behind = closers[~self._ends_field[array[closers + 1]]]
        found = np.concatenate((within, behind))
        order = np.argsort(found)
        return found[order], order >= len(within)

    def seems_inside(self, data: bytes) -> bool:
        """Whether a stretch from the middle of a file more likely begins inside quotes than outside.

        Inside is likely when all quotes then open and close at the ends of fields, and would not if it began outside.
        """
        if data.find(self.quote_byte) < 0:
            return False
        array = np.frombuffer(data, dtype=np.uint8)
        quotes = np.flatnonzero(array == self.quote)
        return self._all_toggle(array, quotes, True, FILE_START) and not self._all_toggle(
            array, quotes, False, FILE_START
        )

    def likely_start(self, data: bytes) -> int | None:
        """Where the first record behind the first bytes of a stretch seems to start; None where none does.

        The quotes that follow tell whether the stretch more likely begins inside or outside of a quoted cell.
        """
        is_inside = self.seems_inside(data)
        return next_record_start(data, 0, self.toggles(data, is_inside), is_inside)

    def _all_toggle(self, array: NDArray[np.uint8], quotes: Positions, is_inside: bool, before: int) -> bool:
        """Whether every quote opens at a field's start, closes at a field's end, or is half of a doubled one.

        A doubled quote inside a field closes and opens again, which leaves the same text outside and inside.
        """
        openers, closers = (quotes[1::2], quotes[0::2]) if is_inside else (quotes[0::2], quotes[1::2])
        preceding = array[openers - 1]
        if len(openers) and openers[0] == 0:
            preceding[0] = before
        opens = self._ends_field[preceding]
        after = closers[: len(closers) - 1] if len(closers) and closers[-1] + 1 == len(array) else closers
        closes = self._ends_field[array[after + 1]]
        if opens.all() and closes.all():
            return True
        partners = openers if is_inside else openers[1:]
        adjacent = partners[: len(closers)] == closers[: len(partners)] + 1
        doubled_open = adjacent if is_inside else np.concatenate(([False], adjacent))
        opens[: len(doubled_open)] |= doubled_open[: len(opens)]
        closes[: len(adjacent)] |= adjacent[: len(closes)]
        return bool(opens.all() and closes.all())

    def _walk(self, data: bytes, quotes: list[int], is_inside: bool, before: int) -> Positions:
        toggles = []
        field_starts = (self.delimiter, _NEWLINE, _RETURN)
        index = 0
        while index < len(quotes):
            position = quotes[index]
            index += 1
            if not is_inside:
                if (data[position - 1] if position else before) in field_starts:
                    is_inside = True
                    toggles.append(position)
            elif index < len(quotes) and quotes[index] == position + 1:
                index += 1
            else:
                is_inside = False
                toggles.append(position)
        return np.array(toggles, dtype=np.int64)

    def last_record_end(self, data: bytes) -> tuple[int, bool]:
        """How many bytes of a stretch are complete records, and whether it ends inside quotes.

        The stretch starts with a record; 0 when that is not complete. What is complete ends with a line end.
        """
        toggles = self.toggles(data)
        complete = 0
        for line_end in (b"\n", b"\r"):
            end = len(data)
            while (found := data.rfind(line_end, complete, end)) >= 0:
                before = int(np.searchsorted(toggles, found))
                if before % 2 == 0:
                    complete = found + 1
                    break
                end = int(toggles[before - 1])
        return complete, bool(len(toggles) % 2)

    def records_in(self, data: bytes) -> int:
        """How many records some complete records are: line ends outside quotes that close a line with something on it.

        A last record without line end counts too.
        """
        array = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero((array == _NEWLINE) | (array == _RETURN))
        toggles = self.toggles(data)
        if len(toggles):
            ends = ends[np.searchsorted(toggles, ends) % 2 == 0]
        before = np.concatenate((np.array([-1]), ends))
        return int(np.count_nonzero(ends > before[:-1] + 1)) + bool(before[-1] + 1 < len(data))


@dataclass(frozen=True)
class Records:
    """The records of a stretch that begins and ends with a record.

    Args:
        starts: where each begins.
        stops: where each ends.
        widths: how many fields each has.
        delimiters: where the delimiters between fields are.
        toggles: where quoted text begins and ends, in turn.
    """

    starts: Positions
    stops: Positions
    widths: Positions
    delimiters: Positions
    toggles: Positions

    @classmethod
    def of(cls, dialect: Dialect, data: bytes) -> Records:
        """Them, without lines that have nothing on them."""
        array = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero((array == _NEWLINE) | (array == _RETURN))
        delimiters = np.flatnonzero(array == dialect.delimiter)
        toggles = dialect.toggles(data)
        if len(toggles):
            ends = ends[np.searchsorted(toggles, ends) % 2 == 0]
            delimiters = delimiters[np.searchsorted(toggles, delimiters) % 2 == 0]
        starts = np.concatenate((np.array([0]), ends + 1))
        stops = np.concatenate((ends, np.array([len(data)])))
        is_record = stops > starts
        starts, stops = starts[is_record], stops[is_record]
        fields = np.searchsorted(delimiters, stops) - np.searchsorted(delimiters, starts) + 1
        return cls(starts, stops, fields, delimiters, toggles)

    def of_positions(self, positions: Positions) -> Positions:
        """In which record each position is."""
        return np.searchsorted(self.starts, positions, side="right") - 1

    def fitted(self, data: bytes, width: int, dialect: Dialect) -> tuple[bytes, Positions, Positions]:
        """The stretch with so many fields in every record: cells that are missing are empty, surplus ones are gone.

        Also the records that lose a cell which is not empty, and where their surplus cells begin.
        """
        array = np.frombuffer(data, dtype=np.uint8)
        is_short, is_long = self.widths < width, self.widths > width
        first = np.searchsorted(self.delimiters, self.starts[is_long])
        cuts, stops = self.delimiters[first + width - 1], self.stops[is_long]
        change = np.zeros(len(array) + 1, dtype=np.int8)
        change[cuts] += 1
        change[stops] -= 1
        keep = np.cumsum(change[:-1], dtype=np.int8) == 0
        is_content = np.ones(len(array) + 1, dtype=np.bool_)
        is_content[self.delimiters] = is_content[self.toggles] = False
        # Two quotes in a row within a quoted cell are a quote.
        closing, opening = self.toggles[1:-1:2], self.toggles[2::2]
        is_content[closing[opening - closing == 1]] = True
        before = np.concatenate(([0], np.cumsum(is_content, dtype=np.int64)))
        is_lost = before[stops] > before[cuts]
        missing, sign = np.repeat(self.stops[is_short], width - self.widths[is_short]), dialect.delimiter
        if width == 1:
            # A record whose only cell is empty needs quotes, or it is a blank line.
            missing, sign = np.repeat(cuts[cuts == self.starts[is_long]], 2), dialect.quote
        fitted = np.insert(array, missing, sign)[np.insert(keep, missing, True)]
        return fitted.tobytes(), np.flatnonzero(is_long)[is_lost], cuts[is_lost] + 1

    def apart(self, data: bytes, is_bad: NDArray[np.bool_]) -> tuple[bytes, bytes, Positions]:
        """The stretch without some records, their texts one after the other, and where each of these ends."""
        change = np.zeros(len(data) + 1, dtype=np.int8)
        change[self.starts[is_bad]] += 1
        change[self.stops[is_bad]] -= 1
        is_theirs = np.cumsum(change[:-1], dtype=np.int8).astype(np.bool_)
        array = np.frombuffer(data, dtype=np.uint8)
        ends = np.cumsum(self.stops[is_bad] - self.starts[is_bad])
        return array[~is_theirs].tobytes(), array[is_theirs].tobytes(), ends


def next_record_start(data: bytes, position: int, toggles: Positions, is_inside: bool = False) -> int | None:
    """The place after the first line end at or after a position that stands outside quotes; None when there is none.

    Args:
        data: a stretch of a file.
        position: where to begin.
        toggles: the toggles of the stretch.
        is_inside: whether the stretch begins inside quotes.
    """
    while (end := byte_stream.next_line_start(data, position)) is not None:
        before = int(np.searchsorted(toggles, end - 1))
        if bool(before % 2) == is_inside:
            return end
        if before == len(toggles):
            return None
        position = int(toggles[before])
    return None
