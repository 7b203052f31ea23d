"""Streams of a file's bytes for readers, the starts of lines, and statistics of ranges."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Protocol


class ByteStream(Protocol):
    """Bytes in order; an empty read is the end."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes."""


class TooLong(Exception):
    """A record is longer than memory allows. Callers that know the file convert this to an error."""


class TooHeavy(TooLong):
    """A record is not that long, but has so many values that these take more memory than there is."""


@dataclass
class RangeStats:
    """Statistics of a range: records, bytes, and whether it ended with the end of a record."""

    records: int = 0
    bytes_read: int = 0
    is_closed: bool = True
    #: Whether there was a record that is too long for the reader's memory.
    is_too_long: bool = False


def next_line_start(data: bytes, position: int = 0) -> int | None:
    """The place after the first line end at or after a position; None when there is no line end."""
    newline = data.find(b"\n", position)
    carriage = data.find(b"\r", position, newline if newline >= 0 else len(data))
    found = carriage if carriage >= 0 else newline
    return found + 1 if found >= 0 else None


def records_start(data: bytes, *, is_marked: bool = True) -> int:
    """The offset of the first record, after empty lines and an optional byte order mark."""
    start = len(codecs.BOM_UTF8) if is_marked and data.startswith(codecs.BOM_UTF8) else 0
    return len(data) - len(data[start:].lstrip(b"\r\n"))
