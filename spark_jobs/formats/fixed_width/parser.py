"""Fixed-width bytes to blocks of typed records: the bytes of a field are gathered for many records at once.

Places count bytes of the file (spec/formats.md 6.2). A short record gives what is there; what lies behind the last
field is passed over, however long it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failures
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, encoding, records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from spark_jobs.formats.fixed_width.layout import Field
    from spark_jobs.formats.fixed_width.options import FixedWidthRead
    from spark_jobs.formats.format import Block, FileColumns, Reading
    from spark_jobs.formats.stretch import ByteStream

    Places = NDArray[np.int64]

_NEWLINE, _RETURN = 10, 13


@dataclass(frozen=True)
class Records:
    """Some records: bytes, and where each record begins and ends in them."""

    data: bytes
    starts: Places
    stops: Places

    def __len__(self) -> int:
        return len(self.starts)

    def texts(self, start: int, end: int) -> tuple[bytes, Places]:
        """The bytes of each record between two places, one after the other, and where each ends."""
        first = np.minimum(self.starts + start, self.stops)
        sizes = np.minimum(self.starts + end, self.stops) - first
        ends = np.cumsum(sizes)
        at = np.repeat(first - (ends - sizes), sizes) + np.arange(ends[-1] if len(ends) else 0)
        return np.frombuffer(self.data, dtype=np.uint8)[at].tobytes(), ends

    def record(self, number: int) -> bytes:
        """The bytes of a record."""
        return self.data[self.starts[number] : self.stops[number]]


def next_line(data: bytes) -> int | None:
    """The place after the first line end of some bytes; None where there is none."""
    return data.find(b"\n") + 1 or None


def by_size(stream: ByteStream, length: int, record: int, size: int) -> Iterator[Records]:
    """The records of a stretch, all of one size; about `size` bytes at a time."""
    most = max(size // record, 1) * record
    while length and (data := _exactly(stream, min(most, length))):
        length -= len(data)
        starts = np.arange(0, len(data) - record + 1, record)
        yield Records(data, starts, starts + record)


def by_line(stream: ByteStream, length: int, longest: int, size: int, *, is_crlf: bool) -> Iterator[Records]:
    """The records of a stretch, each on a line; about `size` bytes at a time.

    Of a line that goes on and on, `longest` bytes are kept.
    """
    rest = b""
    is_passing = False
    while length and (chunk := _exactly(stream, min(size, length))):
        length -= len(chunk)
        if is_passing:
            end = next_line(chunk)
            if end is None:
                continue
            chunk, is_passing = chunk[end - 1 :], False
        data = rest + chunk
        end = data.rfind(b"\n") + 1
        if end:
            yield _lines(data[:end], is_crlf)
        rest = data[end:]
        if len(rest) > max(size, longest):
            rest, is_passing = rest[:longest], True
    if rest:
        yield _lines(rest, is_crlf)


def _lines(data: bytes, is_crlf: bool) -> Records:
    array = np.frombuffer(data, dtype=np.uint8)
    stops = np.flatnonzero(array == _NEWLINE)
    starts = np.concatenate((np.array([0], dtype=np.int64), stops + 1))
    stops = np.concatenate((stops, np.array([len(data)], dtype=np.int64)))
    if starts[-1] == len(data):
        starts, stops = starts[:-1], stops[:-1]
    if is_crlf:
        stops = stops - ((stops > starts) & (array[stops - 1] == _RETURN))
    return Records(data, starts, stops)


def _exactly(stream: ByteStream, size: int) -> bytes:
    """Up to `size` bytes, fewer only at the end."""
    data = stream.read(size)
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


class FixedWidthParser:
    """Makes blocks of the records of one file."""

    def __init__(self, fields: Sequence[Field], options: FixedWidthRead, columns: FileColumns, wanted: Reading) -> None:
        self._fields = fields
        self._longest = max(field.end for field in fields)
        self._charset = options.encoding
        self._is_utf8 = encoding.is_utf8(options.encoding)
        self._shape = records.RecordShape(wanted, columns)
        self._flags = {
            field
            for column, field in zip(wanted.columns, columns.declared, strict=True)
            if column.type.kind is Kind.BOOL and field is not None
        }

    def block(self, first: int, some: Records) -> Block:
        """The block of some records."""
        cells: dict[int, pa.StringArray] = {}
        is_bad = np.zeros(len(some), dtype=np.bool_)
        for number in self._shape.needed:
            cells[number] = self._decoded(*some.texts(self._fields[number].start, self._fields[number].end), is_bad)
        rows = np.arange(first, first + len(some), dtype=np.int64)
        if not is_bad.any():
            return self._shape.block(first, len(some), self._values(cells), None, failures.none())
        reason = records.malformed_reason(f"bytes are no {self._charset} text")
        raw = [some.record(int(row))[: self._longest] for row in np.flatnonzero(is_bad)]
        shown = [str(records.malformed("", one).value) for one in raw]
        failing = failures.alike(rows[is_bad], reason, pa.array(shown, pa.string()))
        good = pa.array(~is_bad)
        kept = {number: cell.filter(good) for number, cell in cells.items()}
        return self._shape.block(first, len(some), self._values(kept), rows[~is_bad], failing)

    def _decoded(self, data: bytes, ends: Places, is_bad: NDArray[np.bool_]) -> pa.StringArray:
        """The texts of a field; notes the records in which it is none."""
        if self._is_utf8:
            found = cell_text.of_bytes(data, ends)
            try:
                found.validate(full=True)
            except pa.ArrowInvalid:
                pass  # one by one, below
            else:
                return found
        elif data.isascii():
            return cell_text.of_bytes(data, ends)
        texts: list[str] = []
        begin = 0
        for row, end in enumerate(ends.tolist()):
            try:
                texts.append(data[begin:end].decode(self._charset))
            except UnicodeDecodeError:
                texts.append("")
                is_bad[row] = True
            begin = end
        return pa.array(texts, pa.string())

    def _values(self, cells: dict[int, pa.StringArray]) -> dict[int, pa.StringArray]:
        return {number: self._value(number, text) for number, text in cells.items()}

    def _value(self, number: int, text: pa.StringArray) -> pa.StringArray:
        """The texts of a field without fillers and blanks, null where there is nothing (decision 57)."""
        field = self._fields[number]
        if field.trim:
            trim = pc.utf8_ltrim if field.justify == "right" else pc.utf8_rtrim
            cut = trim(text, field.pad)
            if field.pad == "0":
                # A field of zeros is a zero, and one of `000.5` begins with a point now.
                is_zero = pc.and_(pc.equal(cut, ""), pc.not_equal(text, ""))
                cut = pc.replace_with_mask(cut, is_zero, pa.scalar("0"))
            text = pc.utf8_trim_whitespace(cut)
        if number in self._flags:
            text = pc.replace_substring_regex(text, "^[yY]$", "yes")
            text = pc.replace_substring_regex(text, "^[nN]$", "no")
        return pc.replace_with_mask(text, pc.equal(text, ""), pa.scalar(None, pa.string()))
