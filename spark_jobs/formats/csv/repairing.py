"""`quotes: repair`: finds and marks unescaped quotes of a CSV file before it is parsed.

A quoted field ends at a quote that a delimiter or the end of the record follows. Any other single quote in it is text
that should have been doubled. A field that begins with a quote, and in which another field begins with one before it
ends, was never quoted: its quote is text, too. The same holds for a field with such quotes that would swallow a line
with as many delimiters as a record has. Well-formed records are read as always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats import format

if TYPE_CHECKING:
    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.csv.quotes import Dialect

_LINE_ENDS = (10, 13)


class Repaired:
    """A stream of records in which a stand-in replaces every quote that is text."""

    def __init__(self, stream: ByteStream, dialect: Dialect, stand_in: bytes, width: int = 0) -> None:
        self._stream = stream
        self._dialect = dialect
        self._stand_in = stand_in
        self._width = width
        self._rest = b""
        self._hopeless = range(0)
        self._ready = b""
        self._at_end = False

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; empty at the end."""
        while not self._ready and not self._at_end:
            # If a record is incomplete, as much again is read, so that the work stays linear.
            chunk = self._stream.read(max(size, len(self._rest), 1))
            self._at_end = not chunk
            data = self._rest + chunk
            found = Repair(data, self._dialect, self._width, at_end=self._at_end, hopeless=self._hopeless)
            self._ready = replaced(data[: found.end], found.strays, self._stand_in)
            self._rest = data[found.end :]
            self._hopeless = range(max(found.hopeless.start - found.end, 0), max(found.hopeless.stop - found.end, 0))
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken


def replaced(data: bytes, places: list[int], by: bytes) -> bytes:
    """Bytes with something else in place of some single ones."""
    parts, at = [], 0
    for place in places:
        parts += [data[at:place], by]
        at = place + 1
    return b"".join((*parts, data[at:]))


class Repair:
    """The quotes that are text in some bytes which begin with a record.

    Args:
        data: the bytes.
        dialect: their dialect.
        width: how many fields a record has; 0 where that is not known.
        at_end: whether the file ends with them.
        hopeless: the places where no quoted field of more than two signs begins, known from an earlier look at the
            first of these bytes.
        most: how long a quoted field may be.

    Attributes:
        end: up to where it is known; the end of a record, or of the file.
        strays: the places of quotes that are text, ascending.
        hopeless: the last such places that were found, for the next look.
    """

    def __init__(
        self,
        data: bytes,
        dialect: Dialect,
        width: int = 0,
        *,
        at_end: bool,
        hopeless: range = range(0),
        most: int = format.MOST_RECORD_BYTES,
    ) -> None:
        self.strays: list[int] = []
        self.hopeless = hopeless
        self._data, self._dialect, self._width, self._at_end, self._most = data, dialect, width, at_end, most
        self._blanks = [blank for blank in b" \t" if blank != dialect.delimiter] if dialect.has_blanks else []
        self._toggles: list[int] = []
        if not hopeless and dialect.is_regular(data):
            self.end = dialect.last_record_end(data)[0]
            if not at_end or not len(dialect.toggles(data)) % 2:
                self.end = len(data) if at_end else self.end
                return
        array = np.frombuffer(data, dtype=np.uint8)
        self._quotes: list[int] = np.flatnonzero(array == dialect.quote).tolist()
        limit = self._walk()
        self.end = len(data) if at_end else self._last_record_end(limit)
        self.strays = [place for place in self.strays if place < self.end]

    def _walk(self) -> int:
        """Look at the quotes one after the other; returns the place up to which they could be told."""
        index, count = 0, len(self._quotes)
        comment_stop = -1
        while index < count:
            place = self._quotes[index]
            if place < comment_stop or not self._begins_field(place):
                index += 1
                continue
            if self._dialect.comment and (stop := self._comment_around(place)):
                comment_stop = stop
                continue
            if place in self.hopeless:
                if index + 1 < count and self._quotes[index + 1] == place + 1 and self._closes(place + 1):
                    self._toggles += [place, place + 1]
                    index += 2
                else:
                    self.strays.append(place)
                    index += 1
                continue
            closer = self._closer(index)
            if closer is None:
                return place
            if closer < 0:
                self.strays.append(place)
                index += 1
            else:
                self._toggles += [place, self._quotes[closer]]
                index = closer + 1
        return len(self._data)

    def _closer(self, opener: int) -> int | None:
        """The quote that ends a quoted field; -1 if the field is not quoted, None if more data is needed."""
        data, found = self._data, self._quotes
        start = found[opener]
        strays: list[int] = []
        line_end = len(data)
        index = opener + 1
        while index < len(found):
            place = found[index]
            if place - start > self._most:
                return self._give_up(start, start + self._most)
            if strays:
                line_end, goes_on = self._line_before(place, line_end)
                if not goes_on:
                    return None if goes_on is None else self._give_up(start, line_end)
            if index + 1 < len(found) and found[index + 1] == place + 1:
                index += 2
                continue
            if place + 1 == len(data) and not self._at_end:
                return None
            if self._closes(place):
                self.strays += strays
                return index
            if place > start + 1 and self._begins_field(place):
                return self._give_up(start, place)
            if not strays:
                line_end, goes_on = self._line_before(place, self._line_end(start))
                if not goes_on:
                    return None if goes_on is None else self._give_up(start, line_end)
            strays.append(place)
            index += 1
        if strays and line_end < len(data):
            line_end, goes_on = self._line_before(len(data), line_end)
            if goes_on is False:
                return self._give_up(start, line_end)
        if len(data) - start > self._most:
            return self._give_up(start, start + self._most)
        return self._give_up(start, len(data)) if self._at_end else None

    def _line_before(self, place: int, line_end: int) -> tuple[int, bool | None]:
        """Whether a field with strays goes on from one line end to a place, and the end of the last line it may have.

        It does not beyond a line that may be a record of its own. None where the line has to be read first.
        """
        while line_end < place:
            if self._width < 2:
                return line_end, False
            following = self._line_end(line_end + 1)
            if self._data.count(self._dialect.delimiter_byte, line_end + 1, following) >= self._width - 1:
                return line_end, False
            if following == len(self._data):
                return (line_end, None) if not self._at_end else (following, True)
            line_end = following
        return line_end, True

    def _give_up(self, opener: int, place: int) -> int:
        """Note that no quoted field begins between an opener and a place; returns -1."""
        self.hopeless = range(opener, place)
        return -1

    def _line_end(self, place: int) -> int:
        """The end of the line at a place."""
        ends = [end for sign in (b"\n", b"\r") if (end := self._data.find(sign, place)) >= 0]
        return min(ends, default=len(self._data))

    def _comment_around(self, place: int) -> int:
        """The end of the line around a field's start if the line is a comment; otherwise 0."""
        data = self._data
        start = max(data.rfind(b"\n", 0, place), data.rfind(b"\r", 0, place)) + 1
        return self._line_end(start) if data.startswith(self._dialect.comment, start) else 0

    def _begins_field(self, place: int) -> bool:
        place -= 1
        while self._blanks and place >= 0 and self._data[place] in self._blanks:
            place -= 1
        return place < 0 or self._data[place] == self._dialect.delimiter or self._data[place] in _LINE_ENDS

    def _closes(self, place: int) -> bool:
        data = self._data
        place += 1
        while self._blanks and place < len(data) and data[place] in self._blanks:
            place += 1
        return place == len(data) or data[place] == self._dialect.delimiter or data[place] in _LINE_ENDS

    def _last_record_end(self, limit: int) -> int:
        """The end of the last record that ends before a place; 0 where none does."""
        toggles = np.array(self._toggles, dtype=np.int64)
        best = 0
        for sign in (b"\n", b"\r"):
            end = limit
            while (found := self._data.rfind(sign, best, end)) >= 0:
                before = int(np.searchsorted(toggles, found))
                if before % 2 == 0:
                    best = found + 1
                    break
                end = self._toggles[before - 1]
        return best
