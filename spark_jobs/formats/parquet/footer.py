"""Reads the column statistics of row groups from the footer of a Parquet file, without Arrow.

Arrow ends the process if these are broken; here, statistics that cannot be understood are ignored. A footer is a
structure in Thrift's compact protocol: fields with numbers and types, of which only a few are read.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_jobs.scan.changes import Stream

#: A longer footer takes longer to look at than reading some row groups too many.
MOST_BYTES = 512 << 10
#: So long a footer may always be, however little a task can hold.
_ALWAYS_BYTES = 512 << 10
_END = b"PAR1"
_TAIL = struct.Struct("<I4s")
_MOST_DEPTH = 32
#: The numbers of fields are below that.
_MOST_NUMBER = 1 << 15
#: Types of fields.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_NUMBERS = (I16, I32, I64)
#: The physical types of columns whose lowest and highest values are understood.
_VALUES: Mapping[int, Callable[[bytes], Any]] = {
    1: lambda data: struct.unpack("<i", data)[0],
    2: lambda data: struct.unpack("<q", data)[0],
    4: lambda data: struct.unpack("<f", data)[0],
    5: lambda data: struct.unpack("<d", data)[0],
    6: lambda data: data,
}
#: Decimals by their number among converted and logical types, and the types that have the bytes of one, highest first.
_DECIMAL = 5
_BYTES = (6, 7)


@dataclass(frozen=True)
class Chunk:
    """A column in a row group.

    Args:
        nulls: how many records have no value; None where nothing is said.
        lowest: no value is less; texts are bytes, Decimals whole numbers of units. None where nothing is said.
        highest: no value is greater.
    """

    nulls: int | None
    lowest: Any
    highest: Any


@dataclass(frozen=True)
class Group:
    """A row group: how many records it has, and its columns that are no structures and lists, by name."""

    rows: int
    chunks: Mapping[str, Chunk]


class Unclear(Exception):
    """Bytes that are no structure."""


def groups(stream: Stream) -> list[Group]:
    """The row groups of a file; none where the footer is not understood. The position is anywhere afterwards.

    Raises:
        FormatError: the file cannot be read.
    """
    try:
        size = size_of(stream)
        if size is None or size > MOST_BYTES:
            return []
        return _groups(_Fields(bytes_of(stream, size)).structure(0))
    except NOT_UNDERSTOOD:
        return []


def structure(data: bytes) -> tuple[dict[int, Any], int]:
    """The structure at the beginning of some bytes, and how long it is.

    Raises:
        Unclear: there is none.
    """
    fields = _Fields(data)
    try:
        return fields.structure(0), fields.at
    except NOT_UNDERSTOOD as problem:
        raise Unclear from problem


#: The errors raised when reading a structure where there is none.
NOT_UNDERSTOOD = (Unclear, LookupError, ValueError, TypeError, AttributeError, struct.error, RecursionError)


def size_of(stream: Stream) -> int | None:
    """The size of a file's footer in bytes; None if there is none. The position is anywhere afterwards.

    Raises:
        FormatError: the file cannot be read.
    """
    before = stream.size() - _TAIL.size
    if before < 0:
        return None
    stream.seek(before)
    size, end = _TAIL.unpack(_exactly(stream, _TAIL.size))
    return None if end != _END or size > before else int(size)


def checked_size(stream: Stream, most: int, name: str) -> int | None:
    """The size of a file's footer, checked to fit into a task.

    Args:
        stream: the file.
        most: the most bytes of one record that a task may hold.
        name: the file's name.

    Raises:
        FormatError: the file cannot be read, or its footer is longer (E310).
    """
    size = size_of(stream)
    if size is not None and size > max(most, _ALWAYS_BYTES):
        text = (
            f"its footer has {size} bytes, more than {most}, a third of what memory.limit leaves to each task; "
            "raise memory.limit, use fewer threads, or write the file with larger row groups"
        )
        raise FormatError(text, name, "E310")
    return size


def bytes_of(stream: Stream, size: int) -> bytes:
    """The bytes of a footer of a given size; the position is after them afterwards.

    Raises:
        FormatError: the file cannot be read.
    """
    stream.seek(stream.size() - _TAIL.size - size)
    return _exactly(stream, size)


def _exactly(stream: Stream, size: int) -> bytes:
    data = stream.read(size)
    while len(data) < size:
        data += stream.read(size - len(data))
    return data


def _groups(footer: dict[int, Any]) -> list[Group]:
    orders = [1 in order for order in footer.get(7, ())]
    # An element with a type is a column of values; others contain elements.
    elements = [element for element in footer[2] if 1 in element]
    return [_group(found, elements, orders) for found in footer[4]]


def _group(found: dict[int, Any], elements: list[dict[int, Any]], orders: list[bool]) -> Group:
    chunks: dict[str, Chunk] = {}
    for place, (column, element) in enumerate(zip(found[1], elements, strict=True)):
        about = column.get(3)
        if about is not None and about.get(1) != element[1]:
            raise Unclear  # Arrow refuses such a file, if it is read.
        if about is None or len(about[3]) != 1:
            continue
        # Minimum and maximum count only if values are sorted in the order that their type defines.
        is_ordered = place < len(orders) and orders[place]
        chunks[about[3][0].decode()] = _chunk(element, about.get(12, {}), is_ordered=is_ordered)
    return Group(_count(found[3]), chunks)


def _count(number: Any) -> int:
    if not isinstance(number, int) or number < 0:
        raise Unclear
    return number


def _chunk(element: dict[int, Any], said: dict[int, Any], *, is_ordered: bool) -> Chunk:
    nulls = _count(said[3]) if 3 in said else None
    value = _reader(element)
    if not is_ordered or value is None or 5 not in said or 6 not in said:
        return Chunk(nulls, None, None)
    lowest, highest = value(said[6]), value(said[5])
    if any(isinstance(each, float) and math.isnan(each) for each in (lowest, highest)) or lowest > highest:
        return Chunk(nulls, None, None)
    return Chunk(nulls, lowest, highest)


def _reader(element: dict[int, Any]) -> Callable[[bytes], Any] | None:
    """The function that reads a bound of a column; None if nothing is known of such columns."""
    kind = element[1]
    is_decimal = element.get(6) == _DECIMAL or _DECIMAL in element.get(10, {})
    return _units if is_decimal and kind in _BYTES else _VALUES.get(kind)


def _units(data: bytes) -> int:
    if not data:
        raise Unclear
    return int.from_bytes(data, "big", signed=True)


class CompactBytes:
    """Bytes in Thrift's compact protocol, read from a place on; `at` is the place of the next byte."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def byte(self) -> int:
        """The next byte; an IndexError past the end."""
        self.at += 1
        return self._data[self.at - 1]

    def varint(self) -> int:
        """The next unsigned number.

        Raises:
            Unclear: it has more than ten bytes.
        """
        found = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
        raise Unclear


class _Fields(CompactBytes):
    """Structures of Thrift as dictionaries by the numbers of their fields, lists as lists, texts as bytes."""

    def structure(self, depth: int) -> dict[int, Any]:
        """The structure that begins here."""
        if depth > _MOST_DEPTH:
            raise Unclear
        found: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            if not 0 <= number < _MOST_NUMBER:
                raise Unclear  # Arrow would take it for another one
            found[number] = self._value(head & 0xF, depth)
        return found

    def _signed(self) -> int:
        found = self.varint()
        return (found >> 1) ^ -(found & 1)

    def _take(self, size: int) -> bytes:
        if self.at + size > len(self._data):
            raise Unclear
        self.at += size
        return self._data[self.at - size : self.at]

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _NUMBERS:
            return self._signed()
        if kind == BINARY:
            return self._take(self.varint())
        if kind == STRUCT:
            return self.structure(depth + 1)
        if kind in (LIST, SET):
            return self._list(depth)
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self.byte()
        if kind == DOUBLE:
            return self._take(8)
        raise Unclear  # Footers have no maps.

    def _list(self, depth: int) -> list[Any]:
        if depth > _MOST_DEPTH:
            raise Unclear
        head = self.byte()
        size = head >> 4 if head >> 4 < 0xF else self.varint()
        if size > len(self._data) - self.at:
            raise Unclear  # each has a byte at least
        kind = head & 0xF
        if kind in (TRUE, FALSE):
            return [self.byte() == TRUE for _ in range(size)]
        return [self._value(kind, depth + 1) for _ in range(size)]
