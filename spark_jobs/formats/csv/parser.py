"""CSV bytes to blocks of typed records.

A range of a file that begins and ends at record borders is cut into blocks of a few megabytes, each parsed by Arrow
as text columns and converted by `coerce`. Records that Arrow refuses are sorted out per block: a record with another
number of fields, with bytes that are not UTF-8, or with a quote that is never closed is malformed and keeps its place.
"""

from __future__ import annotations

import codecs
import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from spark_jobs.cxl import failure_columns
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.formats import cell_text, format, misread, records
from spark_jobs.formats.byte_stream import RangeStats
from spark_jobs.formats.csv import quotes, rewriting, whole_records
from spark_jobs.formats.csv.options import Quoting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.csv.options import CsvRead
    from spark_jobs.formats.format import Block, FileColumns, Reading
    from spark_jobs.formats.splits import StartIn

BLOCK_BYTES = format.BLOCK_BYTES
#: Blocks of irregular files are smaller: short broken records are many, and each becomes an entry.
_CAREFUL_BYTES = 1 << 20
#: Kinds of broken records: a quote in one of two wrong places, or a wrong number of fields.
_WITHIN, _AFTER, _RAGGED = 1, 2, 3
_STRAYS = {
    _WITHIN: "a cell that is not quoted contains a quote (`quotes: strict`)",
    _AFTER: "text follows a closing quote (`quotes: strict`)",
}
_UNDECODABLE = re.compile("[\udc80-\udcff]+")
#: The replacement of undecodable bytes in displayed records.
_REPLACEMENT = "\ufffd"


@lru_cache(maxsize=64)
def dialect_of(options: CsvRead) -> quotes.Dialect:
    """The structuring bytes of files that are read by some options, once their signs are the usual ones."""
    made = rewriting.of(options)
    if made is not None:
        return made.dialect
    return quotes.Dialect(ord(options.delimiter), ord(options.quote_char), options.comment.encode(), options.trim)


def is_regular(options: CsvRead) -> bool:
    """Whether all lines of a file are records as they are."""
    is_cleaned = bool(options.comment) or options.trim or options.skip_repeated_header
    return rewriting.of(options) is None and not is_cleaned


def start_in(options: CsvRead) -> StartIn:
    """A function that finds a likely start of a record in bytes from the middle of a file."""
    dialect, made = dialect_of(options), rewriting.of(options)
    if made is None:
        return dialect.likely_start

    def found(data: bytes) -> int | None:
        rewritten = made.rewritten(data)
        start = dialect.likely_start(rewritten)
        return None if start is None else len(made.original(rewritten[:start]))

    return found


class CsvParser:
    """Reads ranges of one file."""

    def __init__(
        self,
        options: CsvRead,
        columns: FileColumns,
        reading: Reading,
        block_bytes: int | None = None,
        headers: tuple[bytes, ...] = (),
    ) -> None:
        self._dialect = dialect_of(options)
        self._rewriting = rewriting.of(options)
        self._headers = headers
        self._delimiter, self._quote = chr(self._dialect.delimiter), chr(self._dialect.quote)
        self._options = options
        self._columns = columns
        self._block_bytes = block_bytes or reading.block_bytes
        self._record_bytes = reading.record_bytes
        self._shape = records.RecordShape(reading, columns)
        self._is_strict = options.quotes is Quoting.STRICT
        self._names = [f"f{index}" for index in range(columns.width)]
        self._needed = self._shape.needed or [0]

    def blocks(self, stream: ByteStream, stats: RangeStats, *, is_last: bool) -> Iterator[Block]:
        """The blocks of a range that begins with a record; fills in `stats` on the way.

        Args:
            stream: the bytes of the range and no more, in UTF-8 and with the usual signs.
            stats: collects statistics of the range.
            is_last: whether the file ends with the range. Elsewhere an end inside quotes means that the range was
                cut wrongly: then `stats.is_closed` is false at the end, and the batches must not be used.
        """
        size, most = self._block_bytes, self._record_bytes
        found = whole_records.read(stream, self._dialect, size, stats, is_last=is_last, most=most)
        for data, problem in found:
            if problem is None:
                if data := cleaned(data, self._dialect, self._headers):
                    yield from self._blocks(data, stats)
            else:
                yield self._broken_record(data, problem, stats)

    def whole(self, data: bytes) -> list[Block]:
        """The blocks of some complete records, none of which is longer than allowed."""
        return list(self._blocks(data, RangeStats()))

    def _broken_record(self, data: bytes, problem: str, stats: RangeStats) -> Block:
        """The block of a record without an end, which is malformed."""
        first = stats.records
        stats.records += 1
        if self._rewriting is not None:
            data = self._rewriting.original(data)
        failing = failure_columns.of([RowFailure(first, records.malformed(problem, data))])
        return self._shape.block(first, 1, self._no_texts(), np.empty(0, dtype=np.int64), failing)

    def _no_texts(self) -> dict[int, pa.StringArray]:
        return {index: pa.array([], pa.string()) for index in self._needed}

    def _blocks(self, data: bytes, stats: RangeStats) -> Iterator[Block]:
        """The blocks of some records; records with another number of fields than the header make smaller blocks."""
        mark = None if is_utf8(data) else _unused_character(data)
        if mark is not None:
            data = _marked(data, mark)
        if not (self._is_strict and len(self._dialect.strays(data)[0])):
            try:
                yield self._block(data, mark, stats)
            except pa.ArrowInvalid:
                # Some have another number of fields.
                pass
            else:
                return
        while data:
            part = self._beginning(data)
            for some in self._of_few_records(part):
                yield self._block_of_some(some, mark, stats)
            data = data[len(part) :]

    def _of_few_records(self, data: bytes) -> Iterator[bytes]:
        """Records, so many at once as can get the cells that they lack: a short line may be one of many columns."""
        most = max(self._block_bytes // self._columns.width, 1)
        if not self._options.ragged.pads or len(data) // 2 <= most:
            yield data
            return
        starts = quotes.Records.of(self._dialect, data).starts
        for begin, end in itertools.pairwise([0, *starts[most::most].tolist(), len(data)]):
            yield data[begin:end]

    def _beginning(self, data: bytes) -> bytes:
        """The first records of a range, about `_CAREFUL_BYTES` of them."""
        size = _CAREFUL_BYTES
        while size < len(data):
            end, _ = self._dialect.last_record_end(data[:size])
            if end:
                return data[:end]
            size *= 2
        return data

    def _block(self, data: bytes, mark: str | None, stats: RangeStats) -> Block:
        """The block of records; raises `pa.ArrowInvalid` where some have another number of fields than they should."""
        texts = self._parse(data, mark)
        first, count = stats.records, len(next(iter(texts.values())))
        stats.records += count
        if mark is None:
            block = self._shape.block(first, count, texts, None, failure_columns.none())
        else:
            rows = np.arange(first, first + count, dtype=np.int64)
            texts, rows, undecodable = self._without_marked(texts, rows, mark)
            block = self._shape.block(first, count, texts, rows, undecodable)
        block.repaired = self._repaired(data, np.arange(first, first + count, dtype=np.int64), mark)
        return block

    def _repaired(self, data: bytes, rows: failure_columns.Rows, mark: str | None) -> format.Affected | None:
        """The records with unescaped quotes, and the first of these quotes."""
        sign = b"" if self._rewriting is None else self._rewriting.repaired_quote
        if not sign or sign not in data:
            return None
        assert self._rewriting is not None
        found = quotes.Records.of(self._dialect, data)
        theirs = _records_with(sign, data, found)
        if mark is not None:
            theirs = np.setdiff1d(theirs, _records_with(mark.encode(), data, found))
        if not len(theirs):
            return None
        first = data[int(found.starts[theirs[0]]) : int(found.stops[theirs[0]])].decode()
        return format.Affected(rows[theirs], self._rewriting.original_text(first))

    def _block_of_some(self, data: bytes, mark: str | None, stats: RangeStats) -> Block:
        """The block of records some of which are ragged or wrongly quoted; records beyond repair are not parsed."""
        found = quotes.Records.of(self._dialect, data)
        first, count = stats.records, len(found.starts)
        stats.records += count
        width = self._columns.width
        is_short, is_long = found.widths < width, found.widths > width
        problems = np.zeros(count, dtype=np.int64)
        problems[is_short & (not self._options.ragged.pads)] = _RAGGED
        problems[is_long & (not self._options.ragged.cuts)] = _RAGGED
        if self._is_strict:
            strays, are_after = self._dialect.strays(data)
            # The first one of a record tells.
            problems[found.of_positions(strays)[::-1]] = np.where(are_after, _AFTER, _WITHIN)[::-1]
        is_bad = problems > 0
        rest, bad, ends = found.apart(data, is_bad)
        rows = np.arange(first, first + count, dtype=np.int64)
        shown = self._shown(cell_text.of_bytes(bad, ends), mark)
        failing = self._malformed(rows[is_bad], problems[is_bad], found.widths[is_bad], shown)
        rows = rows[~is_bad]
        surplus: format.Affected | None = None
        repaired = self._repaired(rest, rows, mark)
        if (~is_bad & (is_short | is_long)).any():
            rest, surplus = self._fitted(rest, rows, mark)
        texts = self._parse(rest, mark) if len(rows) else self._no_texts()
        if mark is not None and len(rows):
            texts, rows, undecodable = self._without_marked(texts, rows, mark)
            failing = failure_columns.concatenated([failing, undecodable])
        block = self._shape.block(first, count, texts, rows, failing)
        block.surplus, block.repaired = surplus, repaired
        return block

    def _fitted(
        self, data: bytes, rows: failure_columns.Rows, mark: str | None
    ) -> tuple[bytes, format.Affected | None]:
        """Records that all have as many fields as the file, and what of them is lost."""
        found = quotes.Records.of(self._dialect, data)
        fitted, lost, begins = found.fitted(data, self._columns.width, self._dialect)
        if not len(lost):
            return fitted, None
        shown = data[int(begins[0]) : int(found.stops[lost[0]])].decode()
        shown = shown if self._rewriting is None else self._rewriting.original_text(shown)
        return fitted, format.Affected(rows[lost], shown if mark is None else shown.replace(mark, _REPLACEMENT))

    def _malformed(
        self, rows: failure_columns.Rows, problems: quotes.Positions, widths: quotes.Positions, shown: pa.StringArray
    ) -> failure_columns.Failures:
        """Records that are wrongly quoted, or have another number of fields than the file has."""
        known, reason = np.unique(np.where(problems == _RAGGED, _RAGGED + widths, problems), return_inverse=True)
        expected = self._columns.width
        details = [
            _STRAYS.get(code) or f"record has {code - _RAGGED} fields, expected {expected}" for code in known.tolist()
        ]
        return failure_columns.Failures(rows, tuple(map(records.malformed_reason, details)), reason, shown)

    def _parse(self, data: bytes, mark: str | None) -> dict[int, pa.StringArray]:
        """The needed fields as text columns, empty cells null; all fields where some records may be undecodable."""
        fields = self._needed if mark is None else range(self._columns.width)
        wanted = [self._names[index] for index in fields]
        data = _without_mark_to_drop(data)
        table = csv.read_csv(
            pa.BufferReader(data),
            # A single Arrow block holds everything, so that Arrow never searches for block borders.
            read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names),
            parse_options=csv.ParseOptions(delimiter=self._delimiter, quote_char=self._quote),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()),
                include_columns=wanted,
                null_values=[""],
                strings_can_be_null=True,
                check_utf8=False,
            ),
        )
        cells = {int(name[1:]): _single(table.column(name)) for name in table.column_names}
        if self._rewriting is not None and mark is None:
            return {index: self._rewriting.cells(column) for index, column in cells.items()}
        return cells

    def _without_marked(
        self, cells: dict[int, pa.StringArray], rows: failure_columns.Rows, mark: str
    ) -> tuple[dict[int, pa.StringArray], failure_columns.Rows, failure_columns.Failures]:
        """The needed columns of the records without a marked character; the others are malformed."""
        is_bad = np.zeros(len(rows), dtype=np.bool_)
        for column in cells.values():
            is_bad |= pc.fill_null(pc.match_substring(column, mark), False).to_numpy(zero_copy_only=False)
        broken = [column.filter(pa.array(is_bad)) for column in cells.values()]
        raw = pc.binary_join_element_wise(*broken, self._delimiter, null_handling="replace")
        reason = records.malformed_reason(misread.undecodable(self._options.encoding))
        failing = failure_columns.alike(rows[is_bad], reason, self._shown(raw, mark))
        kept = pa.array(~is_bad)
        good = {index: cells[index].filter(kept) for index in self._needed}
        if self._rewriting is not None:
            good = {index: self._rewriting.cells(column) for index, column in good.items()}
        return good, rows[~is_bad], failing

    def _shown(self, raw: pa.StringArray, mark: str | None) -> pa.StringArray:
        """The beginnings of malformed records, as dead letters have them."""
        if self._rewriting is not None:
            raw = pc.utf8_slice_codeunits(raw, 0, 2 * format.RAW_TEXT_LIMIT)
            raw = pa.array(map(self._rewriting.original_text, raw.to_pylist()), pa.string())
        return _shown(raw, mark)


def _unused_character(data: bytes) -> str:
    """A character that does not occur in some bytes: one that Unicode keeps out of texts, or one for private use."""
    candidates = itertools.chain(range(0xFDD0, 0xFDF0), range(0xF0000, 0xFFFFE))
    return next(character for character in map(chr, candidates) if character.encode() not in data)


def _marked(data: bytes, mark: str) -> bytes:
    """The bytes as UTF-8, each run of undecodable ones replaced by the mark. All others stay, so records do too."""
    return _UNDECODABLE.sub(mark, data.decode("utf-8", "surrogateescape")).encode()


def _records_with(sign: bytes, data: bytes, found: quotes.Records) -> quotes.Positions:
    """The numbers of the records that contain a sign, ascending."""
    places = np.array([match.start() for match in re.finditer(re.escape(sign), data)], dtype=np.int64)
    theirs: quotes.Positions = np.unique(found.of_positions(places))
    return theirs


def _without_mark_to_drop(data: bytes) -> bytes:
    """Bytes as Arrow's reader must get them: U+FEFF at their start is data, and it would drop one there.

    The byte order mark of a file is gone by now: it stands before the first record.
    """
    return codecs.BOM_UTF8 + data if data.startswith(codecs.BOM_UTF8) else data


def _shown(raw: pa.StringArray, mark: str | None) -> pa.StringArray:
    """The beginnings of malformed records, as dead letters have them."""
    if mark is not None:
        raw = pc.replace_substring(raw, mark, _REPLACEMENT)
    return pc.utf8_rtrim(pc.utf8_slice_codeunits(raw, 0, format.RAW_TEXT_LIMIT), "\r\n")


def count(
    stream: ByteStream,
    options: CsvRead,
    stats: RangeStats,
    headers: tuple[bytes, ...] = (),
    *,
    is_last: bool,
    most: int = format.MOST_RECORD_BYTES,
) -> None:
    """Count the records of a range in `stats` without parsing them; see `CsvParser.blocks`."""
    dialect = dialect_of(options)
    for data, problem in whole_records.read(stream, dialect, BLOCK_BYTES, stats, is_last=is_last, most=most):
        stats.records += dialect.records_in(cleaned(data, dialect, headers)) if problem is None else 1


def cleaned(data: bytes, dialect: quotes.Dialect, headers: tuple[bytes, ...] = ()) -> bytes:
    """Complete records without comments, blanks around fields, and repeated headers."""
    data = dialect.cleaned(data)
    if not any(header in data for header in headers):
        return data
    found = quotes.Records.of(dialect, data)
    is_header = np.zeros(len(found.starts), dtype=np.bool_)
    for header in headers:
        alike = np.flatnonzero(found.stops - found.starts == len(header))
        for place, start in zip(alike.tolist(), found.starts[alike].tolist(), strict=True):
            is_header[place] |= data.startswith(header, start)
    rest, _, _ = found.apart(data, is_header)
    return rest


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8 text."""
    if data.isascii():
        return True
    offsets = pa.py_buffer(np.array([0, len(data)], dtype=np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def parse_record(data: bytes, options: CsvRead) -> list[str]:
    """The fields of the one record that some UTF-8 bytes with the usual signs hold, such as a header.

    Raises:
        UnicodeDecodeError: the bytes are no UTF-8.
    """
    data.decode()
    dialect, made = dialect_of(options), rewriting.of(options)
    data = dialect.cleaned(data)
    most = data.count(dialect.delimiter) + 1
    data = _without_mark_to_drop(data)
    table = csv.read_csv(
        pa.BufferReader(data + b"\n"),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 2, autogenerate_column_names=True),
        parse_options=csv.ParseOptions(delimiter=chr(dialect.delimiter), quote_char=chr(dialect.quote)),
        convert_options=csv.ConvertOptions(column_types={f"f{index}": pa.string() for index in range(most)}),
    )
    fields = [str(column[0].as_py()) for column in table.columns]
    return fields if made is None else list(map(made.cell, fields))


def _single(column: pa.ChunkedArray) -> pa.StringArray:
    one = column.chunk(0) if column.num_chunks == 1 else pc.cast(column, column.type).combine_chunks()
    return cast("pa.StringArray", one)
