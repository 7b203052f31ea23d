"""Lines of JSON texts in portions: as one text for a parser of many, or each on its own."""

from __future__ import annotations

import itertools
import sys
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats.byte_stream import TooHeavy, TooLong
from spark_jobs.tuning import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.byte_stream import ByteStream, RangeStats

    Places = np.ndarray[tuple[int], np.dtype[np.int64]]
    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

#: A portion has no more lines than this.
MOST_LINES = 1 << 16
#: Shorter lines have not so many values that a task could not hold them.
_LONG = 2 << 20
#: The memory of a value while it is read, and the share of a task's memory that a record may take.
_VALUE_BYTES, _SHARE = 40, 3


class Portion:
    """The lines of a portion, without blank ones.

    Args:
        data: their bytes, with any line ends.
        ends: the places of each LF, and of the end of a last line without one; None: they are looked for.
    """

    def __init__(self, data: bytes, ends: Places | None = None) -> None:
        if b"\r" in data:
            data, ends = data.replace(b"\r\n", b"\n"), None
        self._data = data
        if ends is None:
            ends = line_ends(data)
        if _are_objects(data, ends):
            self.objects, self.places = data, np.arange(len(ends))
            self.count = len(ends)
            self._ends = ends
        else:
            stripped = [line.strip(b" \t") for line in self.singly]
            likely = [at for at, line in enumerate(stripped) if line[:1] == b"{" and line[-1:] == b"}"]
            #: The lines that begin with `{` and end with `}`, with LF between them: in most files that is all.
            self.objects = b"\n".join([stripped[at] for at in likely])
            #: Which lines those are.
            self.places = np.array(likely, dtype=np.int64)
            self.count = len(stripped)

    @property
    def size(self) -> int:
        """The bytes of all lines, line ends included."""
        return len(self._data)

    @cached_property
    def singly(self) -> list[bytes]:
        """Each line without its end."""
        return [line for line in self._data.splitlines() if line.strip()]

    @cached_property
    def _ends(self) -> Places:
        return line_ends(self.objects)

    def parts(self, most: int) -> Iterator[Portion]:
        """The lines in parts of at most so many."""
        return iter([self]) if self.count <= most else _of_lines(self._data, most)

    def part(self, rows: Places) -> bytes:
        """Some lines of `objects`, ascending."""
        if len(rows) == len(self.places):
            return self.objects
        borders = np.flatnonzero(np.diff(rows) != 1)
        firsts, lasts = rows[np.append(0, borders + 1)], rows[np.append(borders, len(rows) - 1)]
        starts = np.where(firsts > 0, self._ends[firsts - 1] + 1, 0)
        runs = zip(starts.tolist(), self._ends[lasts].tolist(), strict=True)
        return b"\n".join([self.objects[start:end] for start, end in runs])

    def row(self, position: int) -> int:
        """In which line of `objects` a byte is."""
        return int(np.searchsorted(self._ends, position))


def _are_objects(data: bytes, ends: Places) -> bool:
    """Whether each complete line begins with `{` and ends with `}`."""
    if not data.startswith(b"{") or b"\r" in data:
        return False
    found = np.frombuffer(data, dtype=np.uint8)
    return bool(np.all(found[ends - 1] == ord("}")) and np.all(found[ends[:-1] + 1] == ord("{")))


def line_ends(text: bytes) -> Places:
    """Where each line ends, the last one with or without LF."""
    found = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    return found if text.endswith(b"\n") else np.append(found, len(text))


def count_of(data: bytes, byte: bytes) -> int:
    """Count the occurrences of a byte; for frequent ones, numpy is twice as fast as `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == byte[0]))


def joined(files: Sequence[bytes]) -> bytes:
    """The lines of whole files, one after the other: the last line of a file may have no end."""
    return b"".join([data if data.endswith((b"\n", b"\r")) else data + b"\n" for data in files])


def count(data: bytes) -> int:
    """Count the lines that are not blank: each is a record, or a malformed one."""
    return sum(1 for line in data.splitlines() if line.strip())


def portions(
    stream: ByteStream,
    stats: RangeStats,
    size: int = DEFAULT.json_portion_bytes,
    most_bytes: int = sys.maxsize,
    most_lines: int = MOST_LINES,
) -> Iterator[Portion]:
    """The lines of a stream, so many bytes and lines at once at most; notes in `stats` how much was read.

    Raises:
        TooLong: a line is longer than it may be, or has too many values.
    """
    rest = b""
    while chunk := stream.read(max(size, len(rest))):
        stats.bytes_read += len(chunk)
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if not end:
            data, rest = b"", rest + chunk
        else:
            data, rest = b"".join((rest, memoryview(chunk)[:end])), chunk[end:]
        if len(rest) > most_bytes:
            raise TooLong
        _refuse_heavy(data, min(2 * size, _LONG), most_bytes)
        yield from _of_lines(data, most_lines)
    _refuse_heavy(rest, min(2 * size, _LONG), most_bytes)
    yield from _of_lines(rest, most_lines)


def is_heavy(values: int, size: int, most_bytes: int) -> bool:
    """Whether a value takes more memory than a task has.

    Args:
        values: how many commas are in its text: there are about as many values.
        size: how long its text is.
        most_bytes: its maximum size, a third of a task's memory.
    """
    return values * _VALUE_BYTES + size > _SHARE * most_bytes


def _refuse_heavy(data: bytes, long: int, most_bytes: int) -> None:
    """Look at the lines that are long, whose values are all there at once.

    Raises:
        TooHeavy: these take more memory than a task has.
    """
    if len(data) <= long or not is_heavy(count_of(data, b","), len(data), most_bytes):
        return
    ends = line_ends(data)
    starts = np.append(0, ends[:-1] + 1)
    for at in np.flatnonzero(ends - starts > long):
        line = data[starts[at] : ends[at]]
        if is_heavy(count_of(line, b","), len(line), most_bytes):
            raise TooHeavy


def _of_lines(data: bytes, most_lines: int = MOST_LINES) -> Iterator[Portion]:
    """Give a portion of whole lines, or several where they are short and many: odd lines are held one by one."""
    most = min(most_lines, MOST_LINES)
    if not data or data.isspace():
        return
    ends = line_ends(data)
    if len(ends) <= most:
        yield Portion(data, ends)
        return
    borders = [0, *(ends[most - 1 : -1 : most] + 1).tolist(), len(data)]
    parts = (data[start:end] for start, end in itertools.pairwise(borders))
    yield from (Portion(part) for part in parts if part and not part.isspace())
