"""Finds the borders of CSV records without parsing them.

A line end ends a record unless it is inside quotes. A quote opens a quoted field only at the field's start;
inside, a doubled quote is a literal one; any other quote is a character like the others. So the list of
places where "inside quotes" turns on or off is all that matters: the *toggles*. In regular files every quote is a
toggle, which is checked at memory speed; in others (`5" pipe`) the quotes are walked one by one.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats import byte_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    #: Places in a range of bytes, ascending.
    Positions = NDArray[np.int64]

_NEWLINE, _RETURN = 10, 13
#: The toggles of a range without quotes.
NO_TOGGLES: Positions = np.empty(0, dtype=np.int64)
#: The byte before the first byte of a file, as far as quotes are concerned.
FILE_START = _NEWLINE


@dataclass(frozen=True)
class Dialect:
    """The bytes that structure a CSV file.

    Args:
        delimiter: the byte between fields.
        quote: the byte around fields.
        comment: what lines begin with that are no records; empty where there are none.
        has_blanks: whether blanks around a field are none of it.
    """

    delimiter: int = ord(",")
    quote: int = ord('"')
    comment: bytes = b""
    has_blanks: bool = False

    @cached_property
    def quote_byte(self) -> bytes:
        """The quote as bytes of length 1."""
        return bytes((self.quote,))

    @cached_property
    def delimiter_byte(self) -> bytes:
        """The delimiter as bytes of length 1."""
        return bytes((self.delimiter,))

    @cached_property
    def _ends_field(self) -> NDArray[np.bool_]:
        table = np.zeros(256, dtype=np.bool_)
        table[[self.delimiter, _NEWLINE, _RETURN]] = True
        return table

    def toggles(self, data: bytes, is_inside: bool = False, before: int = FILE_START) -> Positions:
        """The positions of the quotes that open or close quoted text, in turn.

        Args:
            data: a range of a file. It must not end between the two halves of a doubled quote, unless nothing
                follows it that matters.
            is_inside: whether the range begins inside quotes.
            before: the byte before the range.
        """
        if data.find(self.quote_byte) < 0:
            return NO_TOGGLES
        array = np.frombuffer(data, dtype=np.uint8)
        quotes = np.flatnonzero(array == self.quote)
        if self.comment and len(comments := self._comments_with_quotes(data, array, quotes, before)):
            return self._walk(data, quotes.tolist(), is_inside, before, comments)
        if self._all_toggle(array, quotes, is_inside, before):
            return quotes
        return self._walk(data, quotes.tolist(), is_inside, before)

    def is_regular(self, data: bytes) -> bool:
        """Whether every quote of some bytes, which begin with a record, is at a place where quotes belong."""
        if data.find(self.quote_byte) < 0:
            return True
        array = np.frombuffer(data, dtype=np.uint8)
        is_plain = not self.comment or self.comment not in data
        return is_plain and self._all_toggle(array, np.flatnonzero(array == self.quote), False, FILE_START)

    def _line_starts(self, array: NDArray[np.uint8], before: int = FILE_START) -> Positions:
        """The starts of lines, including lines in quoted cells."""
        ends = np.flatnonzero((array[:-1] == _NEWLINE) | (array[:-1] == _RETURN)) + 1
        first = [0] if before in (_NEWLINE, _RETURN) and len(array) else []
        starts: Positions = np.concatenate((np.array(first, dtype=np.int64), ends))
        return starts

    def _commented(self, data: bytes, array: NDArray[np.uint8], before: int = FILE_START) -> Positions:
        """The starts of lines that begin like comments, including lines in quoted cells."""
        if self.comment not in data:
            return NO_TOGGLES
        starts = self._line_starts(array, before)
        starts = starts[array[starts] == self.comment[0]]
        if len(self.comment) > 1:
            starts = starts[
                np.array([data.startswith(self.comment, start) for start in starts.tolist()], dtype=np.bool_)
            ]
        found: Positions = starts
        return found

    @staticmethod
    def _line_stops(array: NDArray[np.uint8], starts: Positions) -> Positions:
        """The ends of the lines that begin at given places."""
        ends = np.concatenate((np.flatnonzero((array == _NEWLINE) | (array == _RETURN)), [len(array)]))
        stops: Positions = ends[np.searchsorted(ends, starts)]
        return stops

    def _comments_with_quotes(
        self, data: bytes, array: NDArray[np.uint8], quotes: Positions, before: int
    ) -> list[tuple[int, int]]:
        """The lines that begin as comments do and have quotes in them, by where they begin and end."""
        starts = self._commented(data, array, before)
        stops = self._line_stops(array, starts)
        has_quotes = np.searchsorted(quotes, stops) > np.searchsorted(quotes, starts)
        return list(zip(starts[has_quotes].tolist(), stops[has_quotes].tolist(), strict=True))

    def cleaned(self, data: bytes) -> bytes:
        """Some complete records without comments, and without the blanks around their fields."""
        if self.comment:
            data = self._without_comments(data)
        return self._without_blanks(data) if self.has_blanks else data

    def _without_comments(self, data: bytes) -> bytes:
        array = np.frombuffer(data, dtype=np.uint8)
        starts = self._commented(data, array)
        if not len(starts):
            return data
        starts = starts[np.searchsorted(self.toggles(data), starts) % 2 == 0]
        kept, at = [], 0
        for start, stop in zip(starts.tolist(), self._line_stops(array, starts).tolist(), strict=True):
            kept.append(data[at:start])
            at = stop
        return b"".join((*kept, data[at:]))

    def _is_blank(self, array: NDArray[np.uint8]) -> NDArray[np.bool_]:
        found = np.zeros(len(array), dtype=np.bool_)
        for blank in b" \t":
            if blank != self.delimiter:
                found |= array == blank
        return found

    def _without_blanks(self, data: bytes) -> bytes:
        array = np.frombuffer(data, dtype=np.uint8)
        is_blank = self._is_blank(array)
        if not is_blank.any():
            return data
        toggles = self.toggles(data)
        if len(toggles):
            change = np.zeros(len(array) + 1, dtype=np.int8)
            change[toggles[::2]] += 1
            change[toggles[1::2]] -= 1
            is_blank &= np.cumsum(change[:-1], dtype=np.int8) == 0
        edges = np.diff(is_blank.astype(np.int8), prepend=0, append=0)
        starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        is_first, is_last = starts == 0, stops == len(array)
        after_border = is_first | self._ends_field[array[np.where(is_first, 0, starts - 1)]]
        before_border = is_last | self._ends_field[array[np.where(is_last, 0, stops)]]
        around = after_border | before_border
        change = np.zeros(len(array) + 1, dtype=np.int8)
        change[starts[around]] += 1
        change[stops[around]] -= 1
        kept: bytes = array[np.cumsum(change[:-1], dtype=np.int8) == 0].tobytes()
        return kept

    def strays(self, data: bytes) -> tuple[Positions, NDArray[np.bool_]]:
        """The quotes of some complete records at places where none belongs, in order.

        Of each: whether it closes a cell after which more text follows; the others stand within cells without quotes.
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
        after = closers[~self._closes(array, closers)]
        found = np.concatenate((within, after))
        order = np.argsort(found)
        return found[order], order >= len(within)

    def seems_inside(self, data: bytes) -> bool:
        """Whether a range from the middle of a file more likely begins inside quotes than outside.

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
        """The likely start of the first record after the first bytes of a range; None if none is found.

        The quotes that follow tell whether the range more likely begins inside or outside of a quoted cell.
        """
        is_inside = self.seems_inside(data)
        return next_record_start(data, 0, self.toggles(data, is_inside), is_inside)

    def _all_toggle(self, array: NDArray[np.uint8], quotes: Positions, is_inside: bool, before: int) -> bool:
        """Whether every quote opens at a field's start, closes at a field's end, or is half of a doubled one.

        A doubled quote inside a field closes and opens again, which leaves the same text outside and inside.
        """
        openers, closers = (quotes[1::2], quotes[0::2]) if is_inside else (quotes[0::2], quotes[1::2])
        opens = self._opens(array, openers, before)
        after = closers[: len(closers) - 1] if len(closers) and closers[-1] + 1 == len(array) else closers
        closes = self._closes(array, after)
        if opens.all() and closes.all():
            return True
        partners = openers if is_inside else openers[1:]
        adjacent = partners[: len(closers)] == closers[: len(partners)] + 1
        doubled_open = adjacent if is_inside else np.concatenate(([False], adjacent))
        opens[: len(doubled_open)] |= doubled_open[: len(opens)]
        closes[: len(adjacent)] |= adjacent[: len(closes)]
        return bool(opens.all() and closes.all())

    def _opens(self, array: NDArray[np.uint8], openers: Positions, before: int) -> NDArray[np.bool_]:
        """Whether a field begins with each of some quotes."""
        at = openers - 1
        if self.has_blanks:
            while (is_blank := (at >= 0) & self._is_blank(array[np.maximum(at, 0)])).any():
                at = at - is_blank
        preceding = array[at]
        preceding[at < 0] = before
        opens: NDArray[np.bool_] = self._ends_field[preceding]
        return opens

    def _closes(self, array: NDArray[np.uint8], closers: Positions) -> NDArray[np.bool_]:
        """Whether a field ends with each of some quotes; none of them is the last byte."""
        at = closers + 1
        if self.has_blanks:
            last = len(array) - 1
            while (is_blank := (at < last) & self._is_blank(array[np.minimum(at, last)])).any():
                at = at + is_blank
            at_end: NDArray[np.bool_] = (at == last) & self._is_blank(array[at])
            return self._ends_field[array[at]] | at_end
        closes: NDArray[np.bool_] = self._ends_field[array[at]]
        return closes

    def _walk(
        self,
        data: bytes,
        quotes: list[int],
        is_inside: bool,
        before: int,
        comments: list[tuple[int, int]] | None = None,
    ) -> Positions:
        toggles = []
        field_starts = (self.delimiter, _NEWLINE, _RETURN)
        blanks = [blank for blank in b" \t" if blank != self.delimiter] if self.has_blanks else []
        lines = iter(comments or ())
        start, stop = next(lines, (len(data), len(data)))
        index = 0
        while index < len(quotes):
            position = quotes[index]
            while stop <= position:
                start, stop = next(lines, (len(data), len(data)))
            if start <= position:
                if not is_inside:
                    index = bisect.bisect_left(quotes, stop)
                # A line that begins within quotes is no comment.
                start, stop = next(lines, (len(data), len(data)))
                continue
            index += 1
            if not is_inside:
                at = position - 1
                while blanks and at >= 0 and data[at] in blanks:
                    at -= 1
                if (data[at] if at >= 0 else before) in field_starts:
                    is_inside = True
                    toggles.append(position)
            elif index < len(quotes) and quotes[index] == position + 1:
                index += 1
            else:
                is_inside = False
                toggles.append(position)
        return np.array(toggles, dtype=np.int64)

    def last_record_end(self, data: bytes) -> tuple[int, bool]:
        """The length of the complete records in a range, and whether the range ends inside quotes.

        The range starts with a record. The length is 0 if this record is not complete. A complete record ends with a
        line end.
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
        """The number of records: line ends outside of quotes that close a non-empty line.

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
    """The records of a range that begins and ends with a record.

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
        """The range with so many fields in every record: cells that are missing are empty, surplus ones are gone.

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
        """The range without some records, their texts one after the other, and where each of these ends."""
        change = np.zeros(len(data) + 1, dtype=np.int8)
        change[self.starts[is_bad]] += 1
        change[self.stops[is_bad]] -= 1
        is_theirs = np.cumsum(change[:-1], dtype=np.int8).astype(np.bool_)
        array = np.frombuffer(data, dtype=np.uint8)
        ends = np.cumsum(self.stops[is_bad] - self.starts[is_bad])
        return array[~is_theirs].tobytes(), array[is_theirs].tobytes(), ends


def next_record_start(data: bytes, position: int, toggles: Positions, is_inside: bool = False) -> int | None:
    """The position after the first line end outside quotes, at or after a position; None if there is none.

    Args:
        data: a range of a file.
        position: where to begin.
        toggles: the toggles of the range.
        is_inside: whether the range begins inside quotes.
    """
    while (end := byte_stream.next_line_start(data, position)) is not None:
        before = int(np.searchsorted(toggles, end - 1))
        if bool(before % 2) == is_inside:
            return end
        if before == len(toggles):
            return None
        position = int(toggles[before])
    return None
