"""The head of a CSV file: the names of its fields, and where its records begin."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats import byte_stream, encoding, misread, reader, reading
from spark_jobs.formats.columns import too_many
from spark_jobs.formats.csv import parser, quotes, rewriting, whole_records
from spark_jobs.formats.csv.options import Duplicates, Quoting
from spark_jobs.limits import FILE_COLUMNS
from spark_jobs.scan import changes, files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.csv.options import CsvRead
    from spark_jobs.formats.csv.quotes import Dialect
    from spark_jobs.scan.files import InputFile

_READ_BYTES = 64 << 10
_LINE_END_BYTES = 2
#: In files without a header, so many records are searched for a complete one.
_MOST_RECORDS = 1000


@dataclass(frozen=True, kw_only=True)
class Head(reader.Head):
    """The head of a CSV file.

    Args:
        records: the records that name its fields, with the usual signs, without their line ends.
    """

    records: tuple[bytes, ...] = ()


class _TooWide(Exception):
    """A record with more fields than a file may have columns."""


@dataclass(frozen=True)
class _Record:
    """A record with the places where it begins and ends; one that is not whole has no end, or is too long."""

    data: bytes
    start: int
    end: int
    is_whole: bool
    #: Whether it ends within quotes, as far as it was read.
    is_open: bool = False


def read(
    file: InputFile, options: CsvRead, declared: Sequence[str], most: int = whole_records.MOST_RECORD_BYTES
) -> Head | None:
    """The names of a file's fields, or None when the file has no record at all.

    A file without a header has the declared names in their order; further fields are called `col_<index>`.

    Args:
        file: the file.
        options: how it is read.
        declared: the names of the declared columns in it.
        most: how many bytes its header may have.

    Raises:
        FormatError: the file cannot be read, or its header is no text, has no end, is too long (E310), or names a
            column twice (E217).
    """
    most = min(most, whole_records.MOST_RECORD_BYTES)
    if file.size <= _READ_BYTES and not file.is_compressed:
        data = changes.content(file)
        with files.decoded(file.name):
            return _read(io.BytesIO(data), changes.edges_of(data), file, options, declared, most)
    with changes.opened(file) as raw:
        return _read(raw, raw.edges(), file, options, declared, most)


def _read(
    raw: ByteStream, edges: int, file: InputFile, options: CsvRead, declared: Sequence[str], most: int
) -> Head | None:
    is_utf8 = encoding.is_utf8(options.encoding)
    stream: ByteStream = raw if is_utf8 else encoding.Utf8Stream(raw, options.encoding)
    made = rewriting.of(options)
    is_repaired = made is not None and made.repairs
    taken: list[bytes] = []
    if made is not None:
        stream = _Kept(made.stream(stream), taken)
    is_marked = is_utf8 or not encoding.takes_mark(options.encoding)
    data, before = _after_lines(stream, options.skip_rows)
    if not before:
        data = data or stream.read(_READ_BYTES)
        if (problem := misread.of_bytes(data)) is not None:
            raise FormatError(problem, file.name)
    found = _records(stream, parser.dialect_of(options), data, before, most=most, is_marked=is_marked)
    if options.has_header:
        head = _with_header(_headers(found, file, options.header_rows, most), file, options)
    else:
        head = _without_header(found, file, options, declared)
    if head is not None and made is not None:
        start = len(made.original(b"".join(taken)[: head.data_start]))
        head = replace(head, data_start=start, header=made.original_text(head.header))
    return head and replace(head, file=replace(file, edges=edges), is_splittable=is_utf8 and not is_repaired)


@dataclass
class _Kept:
    """A stream that keeps all bytes that were read."""

    stream: ByteStream
    taken: list[bytes]

    def read(self, size: int, /) -> bytes:
        data = self.stream.read(size)
        self.taken.append(data)
        return data


def _headers(found: Iterator[_Record], file: InputFile, count: int, most: int) -> list[_Record]:
    """The first records, which name the columns.

    Raises:
        FormatError: they are too long together (E310), or one has no end.
    """
    headers: list[_Record] = []
    size = 0
    for header in itertools.islice(found, count):
        size += len(header.data)
        is_longest = most == whole_records.MOST_RECORD_BYTES
        if not header.is_whole and (header.is_open or is_longest):
            text = f"the header has a quote that is never closed, or is longer than {most >> 20} MB"
            if not is_longest:
                text = "the header has a quote that is never closed"
                text += f", as far as {most} bytes show" if len(header.data) > most else ""
            raise FormatError(f"{text}; to skip lines before it, use `options.skip_rows`", file.name)
        if not header.is_whole or size > most + _LINE_END_BYTES:
            raise reading.too_long(file, most, "the header is")
        headers.append(header)
    return headers


def _with_header(headers: list[_Record], file: InputFile, options: CsvRead) -> Head | None:
    if not headers:
        return None
    rows = [_names(header, file, options) for header in headers]
    names = rows[0]
    if len(rows) > 1:
        parts = itertools.zip_longest(*rows, fillvalue="")
        names = tuple("_".join(filter(None, (part.strip() for part in column))) for column in parts)
    # Names from `columns` take precedence over the header.
    names = (*options.columns, *names[len(options.columns) :])
    dialect = parser.dialect_of(options)
    records = tuple(dialect.cleaned(header.data).rstrip(b"\r\n") for header in headers)
    return Head(
        file=file,
        names=_distinct(names, file, options),
        data_start=headers[-1].end,
        header=headers[0].data.decode(),
        records=records,
    )


def _names(header: _Record, file: InputFile, options: CsvRead) -> tuple[str, ...]:
    """The fields of a record that names columns.

    Raises:
        FormatError: the record is no text.
    """
    try:
        names = _fields(header.data, options)
    except _TooWide:
        raise too_many(file.name) from None
    except UnicodeDecodeError:
        text = f"the header is no {options.encoding} text; {misread.encoding_hint(header.data)}"
        raise FormatError(text, file.name) from None
    dialect = parser.dialect_of(options)
    if options.quotes is Quoting.STRICT and len(dialect.strays(dialect.cleaned(header.data))[0]):
        header_shown = misread.shown(header.data.decode())
        text = f"the header has a quote where none belongs (`options.quotes: strict`): {header_shown}"
        raise FormatError(text, file.name)
    return names


def _distinct(names: tuple[str, ...], file: InputFile, options: CsvRead) -> tuple[str, ...]:
    """The names of a header, each once.

    Raises:
        FormatError: a name stands twice, and nothing says that they are numbered (E217).
    """
    if len(set(names)) == len(names):
        return names
    given: dict[str, int] = {}
    taken, counts = set(names), dict.fromkeys(names, 1)
    for position, name in enumerate(names, 1):
        if name not in given:
            given[name] = position
            continue
        numbered = name
        while numbered in taken:
            counts[name] += 1
            numbered = f"{name}_{counts[name]}"
        if options.duplicate_columns is Duplicates.ERROR:
            message = (
                f"the header names column '{name}' twice, at positions {given[name]} and {position}; "
                f"`options.duplicate_columns: number` reads the second one as '{numbered}'"
            )
            raise FormatError(message, file.name, "E217")
        taken.add(numbered)
        given[numbered] = position
    return tuple(given)


def _without_header(
    records: Iterator[_Record], file: InputFile, options: CsvRead, declared: Sequence[str]
) -> Head | None:
    """The head of a file without a header: as wide as the declared columns, or as the first complete records if wider.

    Records with fewer fields than declared columns do not count. Two others have to agree, if there are two.
    """
    first = next(records, None)
    if first is None:
        return None
    looked_at = itertools.islice(itertools.chain([first], records), _MOST_RECORDS)
    declared = options.columns or declared
    fewest = max(len(declared), 1)
    widths = (width for width in (_width(record, options) for record in looked_at) if width >= fewest)
    width = next(widths, fewest)
    if declared and width > fewest and next(widths, width) != width:
        width = fewest
    names = (*declared, *(f"col_{index}" for index in range(len(declared), width)))
    return Head(file=file, names=names, data_start=first.start)


def _width(record: _Record, options: CsvRead) -> int:
    """The number of fields of a record; 0 if it is malformed."""
    try:
        return len(_fields(record.data, options)) if record.is_whole else 0
    except (UnicodeDecodeError, _TooWide):
        return 0


def _fields(record: bytes, options: CsvRead) -> tuple[str, ...]:
    """The fields of a record; the files of a source mostly have one header, and a long one is not remembered.

    Raises:
        _TooWide: there are more than a file may have; they are counted first, for each costs Arrow some kilobytes.
    """
    return _known_fields(record, options) if len(record) <= _READ_BYTES else _parsed_fields(record, options)


@lru_cache(maxsize=16)
def _known_fields(record: bytes, options: CsvRead) -> tuple[str, ...]:
    return _parsed_fields(record, options)


def _parsed_fields(record: bytes, options: CsvRead) -> tuple[str, ...]:
    dialect = parser.dialect_of(options)
    if record.count(dialect.delimiter) >= FILE_COLUMNS and _borders(record, dialect) >= FILE_COLUMNS:
        raise _TooWide
    return tuple(parser.parse_record(record, options))


def _borders(record: bytes, dialect: Dialect) -> int:
    """The number of delimiters between fields, counted up to the maximal number of columns."""
    toggles, array = dialect.toggles(record), np.frombuffer(record, dtype=np.uint8)
    found = 0
    for first in range(0, len(array), _READ_BYTES):
        at = np.flatnonzero(array[first : first + _READ_BYTES] == dialect.delimiter) + first
        found += int(np.count_nonzero(np.searchsorted(toggles, at) % 2 == 0))
        if found >= FILE_COLUMNS:
            break
    return found


def _after_lines(stream: ByteStream, count: int) -> tuple[bytes, int]:
    """The data read after the first lines of a file, and the number of bytes before it."""
    data, start, before, at_end = b"", 0, 0, False
    for _ in range(count):
        while not at_end and (byte_stream.next_line_start(data, start) or len(data)) == len(data):
            # The rest of the line does not matter, except its line end: a CR at the end of `data` may be half of CR LF.
            kept = data[max(start, len(data) - 1) :] if data.endswith((b"\r", b"\n")) else b""
            before += len(data) - len(kept)
            chunk = stream.read(_READ_BYTES)
            data, start, at_end = kept + chunk, 0, not chunk
        end = byte_stream.next_line_start(data, start)
        if end is None:
            return b"", before + len(data)
        start = end + (data[end - 1 : end + 1] == b"\r\n")
    return data[start:], before + start


def _records(
    stream: ByteStream, dialect: Dialect, data: bytes = b"", before: int = 0, *, most: int, is_marked: bool
) -> Iterator[_Record]:
    """The records of a file, up to the first one that is not complete (inclusive).

    Args:
        stream: the bytes that were not read yet.
        dialect: their dialect.
        data: the bytes that were read already.
        before: the number of bytes before `data`.
        most: how many bytes a record may have.
        is_marked: whether a byte order mark may stand at the beginning of the file.
    """
    at_end = False
    while True:
        start = byte_stream.records_start(data, is_marked=is_marked and not before)
        toggles = dialect.toggles(data[start:]) + start
        end = quotes.next_record_start(data, start, toggles)
        longest = most + 1  # with its line end
        is_long = len(data) - start > longest or whole_records.has_too_many_quotes(data, dialect, most)
        if end is None and not at_end and not is_long:
            chunk = stream.read(max(_READ_BYTES, min(len(data), longest + 1 - len(data) + start)))
            at_end = not chunk
            data += chunk
            continue
        is_open = end is None and bool(len(toggles) % 2)
        is_whole = (end is not None and end - start <= longest) or not (is_long or is_open)
        end = len(data) if end is None else end
        if start < end and dialect.cleaned(data[start:end]).strip(b"\r\n"):
            yield _Record(data[start:end], before + start, before + end, is_whole, is_open)
        if not is_whole or (at_end and end == len(data)):
            return
        data, before = data[end:], before + end
