"""Bounds of the memory that pages of a Parquet file need, known before Arrow allocates it.

A few bytes can encode any number of values: a dictionary entry is written once however many records refer to it, a run
of levels has a length and one value, and texts may share prefixes with their predecessors. So the headers of the pages
are read first. They determine how many rows Arrow may read at a time, and which pages no task can hold.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.formats.parquet import footer
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from spark_jobs.formats.parquet.extents import Extent
    from spark_jobs.scan.changes import Stream

_HEADER_BYTES, _MOST_HEADER_BYTES = 256, 16 << 20
#: Arrow would take a larger number for a small one.
_MOST_NUMBER = 1 << 31
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DELTA_TEXTS = 7
_BYTES, _FIXED = 6, 7
_CODECS = {1: "snappy", 2: "gzip", 3: "lzo", 4: "brotli", 5: "lz4", 6: "zstd", 7: "lz4_raw"}
#: The bytes of a value of each physical type in Arrow, including its validity.
_WIDTHS = {0: 2, 1: 5, 2: 9, 3: 13, 4: 5, 5: 9}
#: A text takes an offset, too.
_TEXT_BYTES = 9
#: A value within a list becomes a Python object, and stands in a list.
_OBJECT_BYTES = 100
_SIZE = struct.Struct("<I")
#: Types of fields in the headers of pages; the number of a field is written in full below the last.
_FALSE, _TEXT, _STRUCTURE, _LONG_NUMBER = 2, 8, 12, 16
_QUICK = (1, _FALSE, 4, 5, 6, _TEXT, _STRUCTURE)


class _Page(NamedTuple):
    """A page by its header.

    Args:
        kind: the page type.
        data: the offset of its bytes.
        packed: the number of its bytes in the file.
        size: the number of its bytes, uncompressed.
        values: the number of its values, including nulls.
        encoding: the encoding of the values.
        level_bytes: the bytes of the repetition levels in a page of version 2; None in a page of version 1.
    """

    kind: int
    data: int
    packed: int
    size: int
    values: int
    encoding: int
    level_bytes: int | None


def most_rows(
    stream: Stream,
    extents: Sequence[Extent],
    chosen: Collection[str],
    group_rows: int,
    batch_rows: int,
    budget: int,
    most: int,
    name: str,
) -> int:
    """The number of rows of a row group that may be read at a time.

    Args:
        stream: the file; its position is anywhere afterwards.
        extents: where the columns of the row group are.
        chosen: the columns at the top that are read.
        group_rows: how many rows the row group has.
        batch_rows: so many it is at most.
        budget: how many bytes these rows may become.
        most: how many bytes a task can hold of one record.
        name: the file's name.

    Raises:
        FormatError: a page, a value or a row does not fit into a task's share (E310), or the pages are broken.
    """
    row_bytes = 0.0
    for extent in extents:
        if extent.column.top in chosen:
            row_bytes += _row_bytes(stream, extent, group_rows, batch_rows, budget, most, name)
            if row_bytes > most:
                raise _too_large(f"a row of column '{extent.column.top}' may take {int(row_bytes)} bytes", most, name)
    return max(1, min(batch_rows, int(budget // max(row_bytes, 1.0))))


def _row_bytes(
    stream: Stream, extent: Extent, group_rows: int, batch_rows: int, budget: int, most: int, name: str
) -> float:
    """An upper bound of the bytes of a column's row, if other columns take about as much at the same time."""
    densest, longest, values, largest = 0.0, 0, 0, 0
    pages: list[_Page] = []
    # A page whose longest possible value fits as often as values are read at a time needs no closer look.
    at_once = extent.values if extent.column.repetition else batch_rows
    for page in _pages(stream, extent, name):
        if max(page.size, page.packed) > most:
            raise _too_large(f"column '{extent.column.path}' has a page of {page.size} bytes", most, name)
        if page.kind == _DICTIONARY:
            width = _longest_entry(stream, extent, page, at_once, budget, name)
            longest = max(longest, width)
            continue
        pages.append(page)
        values += page.values
        largest = max(largest, page.values)
        densest = max(densest, page.size / max(page.values, 1))
        if page.encoding == _DELTA_TEXTS and page.size * max(page.values, 1) > budget:
            # Each text may begin with as much as all of them say.
            longest = max(longest, page.size)
    if not extent.column.repetition and values != group_rows:
        raise broken(f"column '{extent.column.path}' has {values} values, and its row group {group_rows} rows", name)
    width = _WIDTHS.get(extent.column.kind, 0) if extent.column.kind not in (_BYTES, _FIXED) else _TEXT_BYTES
    if extent.column.kind == _FIXED:
        width += extent.column.length
    one = max(width, 1) + max(longest, densest)
    if not extent.column.repetition:
        return one
    one += _OBJECT_BYTES
    if values * one <= budget:
        return values * one / max(group_rows, 1)
    return one * max(_longest_row(stream, extent, pages, name), 1)


def _pages(stream: Stream, extent: Extent, name: str) -> Iterator[_Page]:
    at, values = extent.start, 0
    while values < extent.values and at < extent.end:
        page = _page(stream, at, name)
        yield page
        if page.kind in (_DATA, _DATA_V2):
            values += page.values
        at = page.data + page.packed


def _page(stream: Stream, at: int, name: str) -> _Page:
    size = _HEADER_BYTES
    while True:
        stream.seek(at)
        data = stream.read(size)
        try:
            fields, length = _header(data, 0) if size == _HEADER_BYTES else footer.structure(data)
            break
        except (footer.Unclear, IndexError):
            # Statistics stand in headers, and may be long.
            if len(data) < size or size >= _MOST_HEADER_BYTES:
                raise broken(f"the header of a page at byte {at} cannot be read", name) from None
            size *= 16
    kind, unpacked, packed = (fields.get(number) for number in (1, 2, 3))
    about = fields.get({_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}.get(kind, 0), {}) if isinstance(kind, int) else {}
    if not isinstance(about, dict):
        raise broken(f"the header of a page at byte {at} cannot be read", name)
    values, encoding = about.get(1, 0), about.get(4 if kind == _DATA_V2 else 2, 0)
    levels = about.get(6, 0) if kind == _DATA_V2 else None
    numbers = (unpacked, packed, values, encoding, levels or 0)
    are_numbers = all(isinstance(number, int) and 0 <= number < _MOST_NUMBER for number in numbers)
    if not are_numbers or not isinstance(kind, int):
        raise broken(f"the header of a page at byte {at} cannot be read", name)
    return _Page(kind, at + length, packed, unpacked, values, encoding, levels)  # type: ignore[arg-type]  # checked


def _header(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The numbers of a structure, and where it ends: as `footer.structure`, in less time, without texts and lists.

    Raises:
        IndexError: it is longer than the bytes.
        Unclear: it has something else, too.
    """
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        number += head >> 4
        kind = head & 0xF
        if head < _LONG_NUMBER or kind not in _QUICK:
            raise footer.Unclear
        if kind == _STRUCTURE:
            found[number], at = _header(data, at)
        elif kind > _FALSE:
            value = byte = data[at]
            at += 1
            shift = 7
            value &= 0x7F
            while byte > 0x7F:
                byte = data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
            if kind == _TEXT:
                at += value
            else:
                found[number] = (value >> 1) ^ -(value & 1)
    return found, at + 1


def _longest_entry(stream: Stream, extent: Extent, page: _Page, values: int, budget: int, name: str) -> int:
    """An upper bound of the longest entry of a dictionary, exact where it matters."""
    if extent.column.kind != _BYTES:
        return 0
    longest = max(page.size - _SIZE.size * page.values, 0)
    if longest * values <= budget:
        return longest
    data = _unpacked(stream, extent, page)
    if data is None:
        return longest
    longest = _longest_of(data)
    if longest > len(data):
        raise broken(f"the dictionary of column '{extent.column.path}' leads out of its page", name)
    return longest


def _longest_of(data: bytes) -> int:
    """The length of the longest text; each text is preceded by its length.

    Lengths below 256 have three zeros, as texts hardly do. Where what looks like a length leads to the next all the way
    through, these are the lengths; else they are followed one by one.
    """
    found = np.frombuffer(data, np.uint8)
    if len(found) >= _SIZE.size:
        is_zero = found == 0
        places = np.flatnonzero(is_zero[1:-2] & is_zero[2:-1] & is_zero[3:])
        ends = places + _SIZE.size + found[places]
        if len(places) and not places[0] and ends[-1] == len(found) and (ends[:-1] == places[1:]).all():
            return int(found[places].max())
    longest, at, last = 0, 0, len(data) - _SIZE.size
    read = _SIZE.unpack_from
    while at <= last:
        (size,) = read(data, at)
        if size > longest:
            longest = size
        at += size + _SIZE.size
    return longest


def _unpacked(stream: Stream, extent: Extent, page: _Page) -> bytes | None:
    """The bytes of a page; None if they cannot be decompressed: Arrow reports that when it reads them."""
    stream.seek(page.data)
    data: bytes = stream.read(page.packed)
    if not extent.codec:
        return data
    codec = _CODECS.get(extent.codec, "")
    try:
        found: bytes = pa.decompress(data, decompressed_size=page.size, codec=codec, asbytes=True)
    except (pa.ArrowException, ValueError, OSError, NotImplementedError):
        return None
    return found


def _longest_row(stream: Stream, extent: Extent, pages: Sequence[_Page], name: str) -> int:
    """The number of values in the longest row of a list."""
    longest = open_row = 0
    width = extent.column.repetition.bit_length()
    for page in pages:
        data = _levels(stream, extent, page)
        if data is None:
            open_row += page.values
            longest = max(longest, open_row)
            continue
        for starts, count in _runs(data, width, page.values):
            if starts is None:
                open_row += count
            elif isinstance(starts, bool):
                longest, open_row = max(longest, open_row, 1), 1
            else:
                places = np.flatnonzero(starts)
                if len(places):
                    gaps = np.diff(places)
                    longest = max(longest, open_row + int(places[0]), int(gaps.max()) if len(gaps) else 0)
                    open_row = count - int(places[-1])
                else:
                    open_row += count
        longest = max(longest, open_row)
    return longest


def _levels(stream: Stream, extent: Extent, page: _Page) -> bytes | None:
    """The repetition levels of a page."""
    if page.level_bytes is not None:
        stream.seek(page.data)
        found: bytes = stream.read(page.level_bytes)
        return found
    data = _unpacked(stream, extent, page)
    if data is None or len(data) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack_from(data)
    return data[_SIZE.size : _SIZE.size + size]


def _runs(data: bytes, width: int, values: int) -> Iterator[tuple[NDArray[np.bool_] | bool | None, int]]:
    """Ranges of levels: which of them begin a row, or True where all do, None where none does; and how many."""
    at, size, step = 0, len(data), (width + 7) // 8
    while values > 0 and at < size:
        head = shift = 0
        while at < size:
            byte = data[at]
            at += 1
            head |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 35:
                break
        if head & 1:
            count = min((head >> 1) * 8, values)
            bits = np.unpackbits(np.frombuffer(data, np.uint8)[at : at + (head >> 1) * width], bitorder="little")
            at += (head >> 1) * width
            whole = bits[: len(bits) // width * width].reshape(-1, width)[:count]
            starts: NDArray[np.bool_] = whole.max(axis=1) == 0
            yield starts, len(whole)
            if not len(whole):
                return
        else:
            count = min(head >> 1, values)
            if not count:
                return
            yield (None if any(data[at : at + step]) else True), count
            at += step
        values -= count


def broken(reason: str, name: str) -> FormatError:
    """The error about a file whose pages are broken."""
    return FormatError(f"is not a readable Parquet file: {reason}", name)


def _too_large(what: str, most: int, name: str) -> FormatError:
    text = (
        f"{what} when it is expanded, more than {most} bytes, a third of what memory.limit leaves to each task; "
        "raise memory.limit, or use fewer threads"
    )
    return FormatError(text, name, "E310")
