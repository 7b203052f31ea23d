"""Lines at the end of a text file that are no records, and lines before its first one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from spark_jobs.scan import changes

if TYPE_CHECKING:
    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.scan.files import InputFile

_NEWLINE, _RETURN = 10, 13
_TAIL_BYTES = 64 << 10
_READ_BYTES = 1 << 20


class Rewriting(Protocol):
    """Rewrites the bytes of a file so that newlines end its records."""

    def rewritten(self, data: bytes) -> bytes:
        """The bytes with newlines."""

    def original(self, data: bytes) -> bytes:
        """The bytes of the file that these were made of."""


def start_of(
    file: InputFile, start: int, lines: int, made: Rewriting | None = None, *, has_returns: bool = True
) -> int:
    """The offset of the last lines of a UTF-8 file, searched from its end.

    Args:
        file: a file that is not compressed.
        start: where its records begin.
        lines: how many lines there are.
        made: rewrites what ends records, where that is no line end.
        has_returns: whether a carriage return ends a line by itself, too.
    """
    size = _TAIL_BYTES
    while True:
        at = max(file.size - size, start)
        with changes.opened(file) as stream:
            stream.seek(at)
            data = _all(stream)
        tail = data if made is None else made.rewritten(data)
        found = _start_of_last(tail, lines, has_returns=has_returns)
        if found or at == start:
            return at + (found if made is None else len(made.original(tail[:found])))
        size *= 4


def after_lines(stream: ByteStream, lines: int) -> int:
    """The bytes of the first lines, each ended by a newline; all bytes of the stream if there are no more lines."""
    size = 0
    while lines and (data := stream.read(_READ_BYTES)):
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE)
        if len(ends) >= lines:
            return size + int(ends[lines - 1]) + 1
        lines -= len(ends)
        size += len(data)
    return size


def _all(stream: ByteStream) -> bytes:
    parts = []
    while data := stream.read(_READ_BYTES):
        parts.append(data)
    return b"".join(parts)


def _start_of_last(data: bytes, lines: int, *, has_returns: bool) -> int:
    """The offset of the last lines; 0 if there are no more lines."""
    ends = _line_ends(data, has_returns=has_returns)
    if len(ends) and ends[-1] == len(data):
        ends = ends[:-1]
    return int(ends[-lines]) if len(ends) >= lines else 0


def _line_ends(data: bytes, *, has_returns: bool) -> np.ndarray:
    """The places after the ends of lines."""
    array = np.frombuffer(data, dtype=np.uint8)
    is_end = array == _NEWLINE
    if has_returns:
        is_return = array == _RETURN
        is_end = is_end | is_return
        # A return with a newline after it is half of an end.
        is_end[:-1] &= ~(is_return[:-1] & (array[1:] == _NEWLINE))
    found: np.ndarray = np.flatnonzero(is_end) + 1
    return found


class WithoutFooter:
    """A stream without its last lines, which it holds back until it ends.

    Args:
        stream: the stream.
        lines: how many lines.
        has_returns: whether a carriage return ends a line by itself, too.
    """

    def __init__(self, stream: ByteStream, lines: int, *, has_returns: bool = True) -> None:
        self._stream = stream
        self._lines = lines
        self._has_returns = has_returns
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
            end = _start_of_last(data, self._lines + (not self._at_end), has_returns=self._has_returns)
            self._ready, self._held = data[:end], data[end:]
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken
