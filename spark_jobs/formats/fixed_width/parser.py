"""Fixed-width bytes to blocks of typed records: the bytes of a field are gathered for many records at once.

Positions count bytes of the file. A record that is too short has only the fields that fit it. Anything after the last
field is ignored, however long it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, encoding, misread, records
from spark_jobs.formats.fixed_width import scales

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from spark_jobs.cxl.failure_columns import Failures
    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.fixed_width.layout import Field, Kinds
    from spark_jobs.formats.fixed_width.options import FixedWidthRead
    from spark_jobs.formats.format import Block, FileColumns, Reading

    Places = NDArray[np.int64]

_NEWLINE, _RETURN = 10, 13
_NUMBERS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.NUMERIC)


@dataclass(frozen=True)
class Records:
    """Some records: bytes, and where each record begins and ends in them."""

    data: bytes
    starts: Places
    stops: Places

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def _step(self) -> int | None:
        """The distance between the starts of records if it is constant; otherwise None."""
        if len(self) < 2:
            return None
        step = int(self.starts[1] - self.starts[0])
        return step if (np.diff(self.starts) == step).all() else None

    @cached_property
    def _shortest(self) -> int:
        return int((self.stops - self.starts).min())

    def texts(self, start: int, end: int) -> tuple[bytes, Places]:
        """The bytes of each record between two places, one after the other, and where each ends."""
        if self._step is not None and end <= self._shortest:
            found = np.frombuffer(self.data, dtype=np.uint8, offset=int(self.starts[0]) + start)
            cut = np.lib.stride_tricks.as_strided(found, (len(self), end - start), (self._step, 1), writeable=False)
            return cut.tobytes(), np.arange(1, len(self) + 1) * (end - start)
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
    """The records of a range, all of one size; about `size` bytes at a time."""
    most = max(size // record, 1) * record
    while length and (data := _exactly(stream, min(most, length))):
        length -= len(data)
        starts = np.arange(0, len(data) - record + 1, record)
        yield Records(data, starts, starts + record)


def by_line(stream: ByteStream, length: int, longest: int, size: int, *, is_crlf: bool) -> Iterator[Records]:
    """The records of a range, each on a line; about `size` bytes at a time.

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

    def __init__(self, kinds: Kinds, options: FixedWidthRead, columns: FileColumns, wanted: Reading) -> None:
        self._kinds = kinds
        #: The field of each kind of records by the number of its name; None where the kind has none.
        by_name = [{field.name: field for field in kind.fields} for kind in kinds.kinds]
        self._fields = [[fields.get(name) for fields in by_name] for name in kinds.names]
        self._charset = options.encoding
        self._is_utf8 = encoding.is_utf8(options.encoding)
        self._shape = records.RecordShape(wanted, columns)
        declared = [
            (column.type.kind, field)
            for column, field in zip(wanted.columns, columns.declared, strict=True)
            if field is not None
        ]
        self._flags = {field for kind, field in declared if kind is Kind.BOOL}
        self._flags |= {
            number
            for number in columns.undeclared
            if number is not None and any(field is not None and field.is_flag for field in self._fields[number])
        }
        self._numbers = {field for kind, field in declared if kind in _NUMBERS}
        #: The decimal separators that are not points.
        self._points = {
            field: column.spelling.decimal_separator
            for column, field in zip(wanted.columns, columns.declared, strict=True)
            if field is not None
        }

    @cached_property
    def widths(self) -> list[int]:
        """The widths of the fields that are read, each as wide as in the widest kind of records."""
        return [
            max(field.end - field.start for field in self._fields[number] if field is not None)
            for number in self._shape.needed
        ]

    def unfolded(self, some: Records) -> int:
        """The bytes of the longest record, or of its fields together if these are more."""
        longest = int((some.stops - some.starts).max(initial=0))
        fields = 0
        for number in self._shape.needed:
            cut = (min(one.end, longest) - min(one.start, longest) for one in self._fields[number] if one is not None)
            fields += max(cut)
        return max(longest, fields)

    def block(self, first: int, some: Records) -> Block:
        """The block of some records."""
        is_bad = np.zeros(len(some), dtype=np.bool_)
        kind = self._kind(some)
        cells: dict[int, pa.StringArray] = {}
        absent: dict[int, NDArray[np.bool_]] = {}
        for number in self._shape.needed:
            if kind is None:
                (field,) = self._fields[number]
                assert field is not None
                cells[number] = self._value(number, field, self._decoded(*some.texts(field.start, field.end), is_bad))
            else:
                cells[number], absent[number] = self._mixed(number, some, kind, is_bad)
        rows = np.arange(first, first + len(some), dtype=np.int64)
        is_strange = np.zeros(len(some), dtype=np.bool_) if kind is None else kind < 0
        if not is_bad.any() and not is_strange.any():
            return self._shape.block(first, len(some), cells, None, failure_columns.none(), absent)
        known = ", ".join(str(one.tag) for one in self._kinds.kinds)
        failing = [
            self._malformed(f"no kind of records has its tag (there are {known})", some, rows, is_strange),
            self._malformed(misread.undecodable(self._charset), some, rows, is_bad & ~is_strange),
        ]
        is_good = ~(is_bad | is_strange)
        good = pa.array(is_good)
        kept = {number: cell.filter(good) for number, cell in cells.items()}
        lacking = {number: mask[is_good] for number, mask in absent.items()}
        return self._shape.block(first, len(some), kept, rows[is_good], failure_columns.concatenated(failing), lacking)

    def _malformed(self, detail: str, some: Records, rows: Places, mask: NDArray[np.bool_]) -> Failures:
        raw = [some.record(int(row))[: self._kinds.end] for row in np.flatnonzero(mask)]
        shown = [str(records.malformed("", one).value) for one in raw]
        return failure_columns.alike(rows[mask], records.malformed_reason(detail), pa.array(shown, pa.string()))

    def _kind(self, some: Records) -> NDArray[np.int64] | None:
        """The number of the kind of each record, -1 where no kind has its tag; None where there is one kind."""
        if self._kinds.tags is None:
            return None
        tags = [(kind.tag or "").encode(self._charset) for kind in self._kinds.kinds]
        data, ends = some.texts(*self._kinds.tags)
        # The bytes may be no text, so that they are compared as bytes.
        found = pc.ascii_trim(cell_text.of_bytes(data, ends), " ").cast(pa.binary())
        number: NDArray[np.int64] = pc.fill_null(
            pc.index_in(found, value_set=pa.array(tags, pa.binary())), -1
        ).to_numpy()
        return number

    def _mixed(
        self, number: int, some: Records, kind: NDArray[np.int64], is_bad: NDArray[np.bool_]
    ) -> tuple[pa.StringArray, NDArray[np.bool_]]:
        """The texts of a field that stands elsewhere in each kind of records, and which records have none of it."""
        parts: list[pa.StringArray] = []
        index = np.full(len(some), -1, dtype=np.int64)
        done = 0
        for each, field in enumerate(self._fields[number]):
            rows = np.flatnonzero(kind == each)
            if field is None or not len(rows):
                continue
            chosen = Records(some.data, some.starts[rows], some.stops[rows])
            wrong = np.zeros(len(rows), dtype=np.bool_)
            parts.append(self._value(number, field, self._decoded(*chosen.texts(field.start, field.end), wrong)))
            is_bad[rows[wrong]] = True
            index[rows] = np.arange(done, done + len(rows))
            done += len(rows)
        absent = index < 0
        if not parts:
            return pa.nulls(len(some), pa.string()), absent
        return pa.concat_arrays(parts).take(pa.array(index, mask=absent)), absent

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

    def _fillers(self, number: int, field: Field) -> Any:
        """The function that strips fillers.

        Without further information, numbers are on the right, as outputs write them.
        """
        is_number = field.is_number or (field.type is None and number in self._numbers)
        if field.justify is None and is_number:
            return pc.utf8_ltrim if field.pad.isdigit() else pc.utf8_trim
        return pc.utf8_ltrim if field.justify == "right" else pc.utf8_rtrim

    def _value(self, number: int, field: Field, text: pa.StringArray) -> pa.StringArray:
        """The texts of a field without padding and blanks.

        A field of zeros is `0`, never null. A blank field is null here or has its `default`.
        """
        if field.trim and field.pad == " " and _has_blanks_alone(text):
            text = pc.ascii_trim(text, " ")
        elif field.trim:
            cut = self._fillers(number, field)(text, field.pad)
            if field.pad == "0":
                # A field of zeros is a zero, and one of `000.5` begins with a point now.
                is_zero = pc.and_(pc.equal(cut, ""), pc.not_equal(text, ""))
                cut = pc.replace_with_mask(cut, is_zero, pa.scalar("0"))
            text = pc.utf8_trim_whitespace(cut)
        sizes = pc.binary_length(text)
        if number in self._flags and pc.any(pc.equal(sizes, 1)).as_py():
            text = pc.replace_substring_regex(text, "^[yY]$", "yes")
            text = pc.replace_substring_regex(text, "^[nN]$", "no")
        if field.scale:
            text = scales.with_point(text, field.scale, self._points.get(number, "."))
        is_empty = pc.equal(sizes, 0)
        if pc.any(is_empty).as_py():
            text = pc.replace_with_mask(text, is_empty, pa.scalar(None, pa.string()))
        return text if field.default is None else pc.fill_null(text, field.default)


def _has_blanks_alone(text: pa.StringArray) -> bool:
    """Whether no other white space than blanks can be in some texts."""
    data = cell_text.characters(text)
    return data.isascii() and (not data or int(np.frombuffer(data, dtype=np.uint8).min()) >= ord(" "))
