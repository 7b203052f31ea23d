"""Wrapped files: all lines have one width, wherever segments end, and the line ends are not part of the text.

Systems that send interchanges in lines of, say, 80 characters cut segments, elements and even tags in two. Such a file
is recognized by its lines: all have the same length, except that the last may be shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats.edi.segments import LINE_ENDS

if TYPE_CHECKING:
    from spark_jobs.formats.byte_stream import ByteStream

#: No line is longer.
MOST_LINE_BYTES = 32_768
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Wrap:
    """The regular wrapping of a file's lines.

    Args:
        line: how many bytes a line has.
        end: how many its line end has.
    """

    line: int
    end: int

    @property
    def period(self) -> int:
        """The distance between the beginnings of two lines."""
        return self.line + self.end

    def offset(self, place: int) -> int:
        """The offset in the file of a byte of the text."""
        return place + place // self.line * self.end

    def text(self, data: bytes, at: int = 0) -> bytes:
        """Bytes without their line ends; the bytes begin at an offset of the file."""
        first = at % self.period
        count = -(-(first + len(data)) // self.period) * self.period
        rows = np.zeros(count, dtype=np.uint8)
        rows[first : first + len(data)] = np.frombuffer(data, dtype=np.uint8)
        is_text = np.zeros(count, dtype=np.bool_)
        is_text[first : first + len(data)] = True
        is_text.reshape(-1, self.period)[:, self.line :] = False
        return rows[is_text].tobytes()

    def lines(self, stream: ByteStream) -> int:
        """The number of whole lines of a file before its last one; 0 where a line end is misplaced or missing.

        Line ends after the last line do not count.
        """
        at = ends = before = 0
        last, misplaced = -1, None
        while data := stream.read(_READ_BYTES):
            array = np.frombuffer(data, dtype=np.uint8)
            places = np.flatnonzero((array == LINE_ENDS[0]) | (array == LINE_ENDS[1])) + at
            if misplaced is None:
                wrong = np.flatnonzero(places % self.period < self.line)
                misplaced = int(places[wrong[0]]) if len(wrong) else None
            size = len(data.rstrip(LINE_ENDS))
            if size:
                last = at + size - 1
                before = ends + int(np.searchsorted(places, last))
                if misplaced is not None and misplaced < last:
                    return 0
            ends += len(places)
            at += len(data)
        found = last // self.period
        return found if before == found * self.end else 0


def candidate(head: bytes) -> Wrap | None:
    """The possible wrapping of a file by its beginning; None if the first two lines differ already."""
    first = _line(head)
    if first is None:
        return None
    end = 2 if head[first : first + 2] == b"\r\n" else 1
    wrap = Wrap(first, end)
    # The last line may be short, and may end with the file.
    rest = head[wrap.period :].rstrip(LINE_ENDS)
    if len(rest) > first and rest[first] not in LINE_ENDS:
        return None
    return wrap if _line(rest[:first]) is None and rest else None


def _line(data: bytes) -> int | None:
    """The length of the first line; None if it is empty or has no end."""
    found = [place for sign in LINE_ENDS if (place := data.find(sign, 0, MOST_LINE_BYTES + 1)) >= 0]
    return min(found, default=0) or None


class UnwrappedStream:
    """A stream without the line ends of its lines.

    Args:
        stream: the file from its first line on.
        wrap: how its lines end.
    """

    def __init__(self, stream: ByteStream, wrap: Wrap) -> None:
        self._stream = stream
        self._wrap = wrap
        self._at = 0

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; empty at the end."""
        while data := self._stream.read(size):
            text = self._wrap.text(data, self._at)
            self._at += len(data)
            if text:
                return text
        return b""
