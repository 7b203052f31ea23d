"""Reads a range of a CSV file as byte chunks of whole records, in bounded memory.

A chunk has some megabytes. A longer record makes a longer chunk, up to `MOST_RECORD_BYTES`; the rest of a record beyond
that, usually one with a quote that was never closed, is skipped without being buffered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.formats import format
from spark_jobs.formats.csv import quotes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.byte_stream import ByteStream, RangeStats
    from spark_jobs.formats.csv.quotes import Dialect

MOST_RECORD_BYTES = format.MOST_RECORD_BYTES
#: The bytes kept of a malformed record: its first characters, each of at most four bytes.
_HEAD_BYTES = format.RAW_TEXT_LIMIT * 4

_OPEN = "quote is never closed"
_RETURN = ord("\r")
#: The bytes that the place of a quote takes, and the limit for the places of a record's quotes, as a multiple of the
#: limit for the record itself. In records of at most `_FEW_BYTES`, quotes are not counted.
_PLACE_BYTES, _SHARE = 16, 3
_FEW_BYTES = 1 << 20
_FEW_QUOTES = 4

WholeRecords = tuple[bytes, str | None]


def read(
    stream: ByteStream, dialect: Dialect, size: int, stats: RangeStats, *, is_last: bool, most: int = MOST_RECORD_BYTES
) -> Iterator[WholeRecords]:
    """Whole records, or the beginning of a record without end and its problem.

    A long record with very many quotes counts as longer than it is.

    Args:
        stream: the bytes of the range, from a record start on.
        dialect: the bytes that structure the file.
        size: how much makes a piece.
        stats: collects statistics of the range.
        is_last: whether the file ends with the range, so that its end is the end of a record.
        most: how long a record may be. Where that is less than `MOST_RECORD_BYTES`, longer ones are left out and noted.
    """
    rest = b""
    most = min(most, MOST_RECORD_BYTES)
    wanted = size = min(size, most)
    # Never more at once than the longest record and a byte of its line end: then a record that is not complete in it
    # is too long, and no other can be.
    while chunk := _read_exactly(stream, min(wanted, max(most + 1 - len(rest), 1))):
        stats.bytes_read += len(chunk)
        data = rest + chunk
        end, _ = dialect.last_record_end(data)
        if end:
            yield data[:end] if end < len(data) else data, None
            rest, wanted = data[end:], size
        elif len(data) <= most and not has_too_many_quotes(data, dialect, most):
            # A record longer than all that was read: read as much again, so that the work stays linear.
            rest, wanted = data, len(data)
        else:
            found, is_open = _pass_over(stream, dialect, data, size, stats)
            stats.is_closed = is_last or found is not None
            stats.is_too_long |= not is_open and most < MOST_RECORD_BYTES
            if is_open or most == MOST_RECORD_BYTES:
                yield data[:_HEAD_BYTES], _OPEN if is_open else f"record is longer than {MOST_RECORD_BYTES >> 20} MB"
            rest, wanted = found or b"", size
    # The data after a record that is too long may consist of complete records.
    end, _ = dialect.last_record_end(rest)
    if end:
        yield rest[:end], None
        rest = rest[end:]
    if rest:
        # What follows the last line end. Only the file's end can close a record in its place.
        stats.is_closed = is_last
        is_open = bool(len(dialect.toggles(rest)) % 2)
        yield (rest[:_HEAD_BYTES], _OPEN) if is_open else (rest, None)


def has_too_many_quotes(data: bytes, dialect: Dialect, most: int) -> bool:
    """Whether the places of the quotes of a long record take more memory than the record may."""
    return len(data) > _FEW_BYTES and data.count(dialect.quote_byte) * _PLACE_BYTES > _SHARE * most


def _pass_over(
    stream: ByteStream, dialect: Dialect, data: bytes, size: int, stats: RangeStats
) -> tuple[bytes | None, bool]:
    """Read on to the end of a record that began with `data`.

    Gives the bytes that were read beyond it, None when the range ended first, and whether that was inside quotes. A
    return at the end of the range ends the record; the newline that may follow is an empty line of the next one.
    """
    quote = dialect.quote_byte
    is_inside, before, is_first = False, quotes.FILE_START, True
    while True:
        # A doubled quote must not be cut in two: quotes at the end move to the next chunk.
        body = data.rstrip(quote)
        run = len(data) - len(body)
        toggles = dialect.toggles(body, is_inside, before)
        if not is_first and (end := quotes.next_record_start(body, 0, toggles, is_inside)) is not None:
            return data[end:], False
        is_inside ^= bool(len(toggles) % 2)
        before = body[-1] if body else before
        is_first = False
        data = _read_exactly(stream, size)
        stats.bytes_read += len(data)
        while run and data and not (rest := data.lstrip(quote)):
            run += len(data)
            data = _read_exactly(stream, size)
            stats.bytes_read += len(data)
        is_end = not data
        if run and data:
            run, data = run + len(data) - len(rest), rest
        # Only the parity of a very long run of quotes matters, since no record ends within it.
        data = quote * (run if run < _FEW_QUOTES else 2 + run % 2) + data
        if is_end:
            is_inside ^= bool(len(dialect.toggles(data, is_inside, before)) % 2)
            before = data[-1] if data else before
            return (b"" if before == _RETURN and not is_inside else None), is_inside


def _read_exactly(stream: ByteStream, size: int) -> bytes:
    """Up to `size` bytes, fewer only at the end."""
    data = stream.read(size)
    if not data or len(data) == size:
        return data
    parts = [data]
    missing = size - len(data)
    while missing and (data := stream.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)
