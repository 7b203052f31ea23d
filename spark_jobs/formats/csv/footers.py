"""Lines at the end of a CSV file that are no records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats.csv import rewriting
from spark_jobs.scan import changes

if TYPE_CHECKING:
    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.csv.options import CsvRead
    from spark_jobs.scan.files import InputFile

_NEWLINE, _RETURN = 10, 13
_TAIL_BYTES = 64 << 10
_READ_BYTES = 1 << 20


def start_of(file: InputFile, start: int, options: CsvRead) -> int:
    """The offset of the last lines of a UTF-8 file, searched from its end.

    Args:
        file: a file that is not compressed.
        start: where its records begin.
        options: how many lines there are, and what ends them.
    """
    made = rewriting.of(options)
    size = _TAIL_BYTES
    while True:
        at = max(file.size - size, start)
        with changes.opened(file) as stream:
            stream.seek(at)
            data = _all(stream)
        tail = data if made is None else made.rewritten(data)
        found = _start_of_last(tail, options.skip_footer)
        if found or at == start:
            return at + (found if made is None else len(made.original(tail[:found])))
        size *= 4


def _all(stream: ByteStream) -> bytes:
    parts = []
    while data := stream.read(_READ_BYTES):
        parts.append(data)
    return b"".join(parts)


def _start_of_last(data: bytes, lines: int) -> int:
    """The offset of the last lines; 0 if there are no more lines."""
    ends = _line_ends(data)
    if len(ends) and ends[-1] == len(data):
        ends = ends[:-1]
    return int(ends[-lines]) if len(ends) >= lines else 0


def _line_ends(data: bytes) -> np.ndarray:
    """The places after the ends of lines."""
    array = np.frombuffer(data, dtype=np.uint8)
    is_return = array == _RETURN
    is_end = (array == _NEWLINE) | is_return
    # A return with a newline after it is half of an end.
    is_end[:-1] &= ~(is_return[:-1] & (array[1:] == _NEWLINE))
    found: np.ndarray = np.flatnonzero(is_end) + 1
    return found


class WithoutFooter:
    """A stream without its last lines, which it holds back until it ends."""

    def __init__(self, stream: ByteStream, lines: int) -> None:
        self._stream = stream
        self._lines = lines
        self._held = b""
        self._ready = b""
        self._at_end = False

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; empty at the end."""
        while not self._ready and not self._at_end:
            chunk = self._stream.read(max(size, 1))
            self._at_end = not chunk
            data = self._held + chunk
            # More may follow that ends a line, or is half of an end: one line more is held back.
            end = _start_of_last(data, self._lines + (not self._at_end))
            self._ready, self._held = data[:end], data[end:]
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken
