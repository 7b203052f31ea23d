"""Reads lines of JSON that are written alike as arrays of bytes, twice as fast as Arrow's JSON reader.

Where all objects have the same members in the same order and spacing, of which texts have no escapes, the quotes of a
portion make a table with a row for each object. The text between values is compared with the first object, eight
bytes at a time, and values are cut out at their places. Everything else is left to Arrow's reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns
from spark_jobs.formats import cell_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spark_jobs.formats.json.texts.portions import Mask, Places

    Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]

#: A member in an object: the text before its value, its name, and the value, a text or another scalar.
_MEMBER = re.compile(rb'( *"([^"\\]*)" *: *)(?:"([^"\\]*)"|([^\s"{}\[\],]+))')
#: The separator after it, or the end of the object.
_NEXT, _LAST = re.compile(rb" *,"), re.compile(rb" *\} *$")
_WORD = 8
_TYPES = (pa.int64(), pa.float64(), pa.bool_())
#: With no more characters, a point and no exponent, a double has all digits that are written.
_SHORT = 16


@dataclass
class Written:
    """The spelling of doubles in some objects, as far as their reader has seen it.

    Args:
        is_known: whether the reader has seen it.
        texts: by column, where some of them are longer than ordinary numbers.
    """

    is_known: bool = False
    texts: dict[str, pa.StringArray] = field(default_factory=dict)


class _Irregular(Exception):
    """The objects are not written alike, or have values that Arrow's reader must look at."""


@dataclass(frozen=True)
class _Member:
    """A member of each object.

    Args:
        before: all that stands between the value before, or the beginning, and this one; with the quotes of texts.
        lead: how much of it stands before its first quote.
        quote: which one of its object that is.
    """

    name: str
    is_text: bool
    before: bytes
    lead: int
    quote: int


@dataclass(frozen=True)
class _Shape:
    """The layout of an object's text: its members, the text after the last value, and the number of quotes."""

    members: tuple[_Member, ...]
    tail: bytes
    quotes: int

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(member.name for member in self.members)


def read(
    text: bytes,
    count: int,
    schema: pa.Schema,
    fewest: int,
    known: Collection[str] | None = None,
    written: Written | None = None,
) -> pa.Table | None:
    """The values of some objects, as Arrow's reader gives them; None where that has to read them.

    Args:
        text: one object a line, in UTF-8, with LF between them.
        count: how many they are.
        schema: the columns to read.
        fewest: with fewer objects for each member than these, Arrow's reader is as fast: a member takes 30
            microseconds however few objects have it.
        known: the members that objects may have; None: any.
        written: is told how doubles are written.
    """
    if len(text) >= 1 << 31 or b"\\" in text:
        return None
    first = text[: end if (end := text.find(b"\n")) >= 0 else None]
    shape = _shape(first) if count >= fewest * max(first.count(b'":'), 1) else None
    if shape is None or (known is not None and not shape.names.issubset(known)):
        return None
    found = np.frombuffer(text, dtype=np.uint8)
    is_one = found == ord('"')
    quotes = np.flatnonzero(is_one).astype(np.int32)
    if len(quotes) != count * shape.quotes:
        return None
    if np.count_nonzero(np.less(found, ord(" "), out=is_one)) != count - (not text.endswith(b"\n")):
        return None  # control characters, which texts must not have
    try:
        objects = _Objects(text, found, np.ascontiguousarray(quotes.reshape(count, shape.quotes).T))
        table = objects.table(shape, schema)
    except _Irregular:
        return None
    if written is not None:
        written.is_known, written.texts = True, objects.long_doubles
    return table


def _shape(line: bytes) -> _Shape | None:
    """Find the layout of an object; None where a value is no text without escapes, number, bool or null."""
    members: list[_Member] = []
    before, at, quotes = b"{", 1, 0
    while found := _MEMBER.match(line, at):
        is_text = found[3] is not None
        before += found[1] + b'"' * is_text
        members.append(_Member(found[2].decode(), is_text, before, before.index(b'"'), quotes))
        quotes += before.count(b'"')
        before, at = b'"' * is_text, found.end()
        if (end := _NEXT.match(line, at)) is None:
            break
        before, at = before + end[0], end.end()
    end = _LAST.match(line, at)
    shape = _Shape(tuple(members), before + end[0], quotes + before.count(b'"')) if end and line[:1] == b"{" else None
    return shape if shape is not None and len(shape.names) == len(members) > 0 else None


class _Objects:
    """The objects of a portion.

    Args:
        text: their bytes.
        found: the same as an array.
        quotes: where the quotes are; one row for each quote of an object.
    """

    def __init__(self, text: bytes, found: Bytes, quotes: np.ndarray) -> None:
        self._found = found
        self._quotes = quotes
        self._padded = text + bytes(_WORD)
        self._words = np.ndarray(len(text) + 1, dtype="<u8", buffer=self._padded, strides=(1,))
        self._size = len(text) - text.endswith(b"\n")
        self._evens = pa.array(np.arange(0, 2 * quotes.shape[1], 2, dtype=np.int32))
        #: The texts of columns of doubles, some of which have many digits.
        self.long_doubles: dict[str, pa.StringArray] = {}

    def table(self, shape: _Shape, schema: pa.Schema) -> pa.Table:
        """The columns.

        Raises:
            _Irregular: an object is written in another way than the first one, or a value is of another kind.
        """
        starts = [self._quotes[member.quote] - member.lead for member in shape.members]
        ends = np.append(starts[0][1:] - 1, self._size)
        starts.append(ends - len(shape.tail))
        self._expect(starts, [*(member.before for member in shape.members), shape.tail])
        _demand(bool(starts[0][0] == 0 and (self._found[ends[:-1]] == ord("\n")).all()))
        arrays: dict[str, pa.Array] = {}
        for member, at, end in zip(shape.members, starts, starts[1:], strict=False):
            begin = at + len(member.before)
            place = schema.get_field_index(member.name)
            kind = schema.field(place).type if place >= 0 else None
            if member.is_text:
                # A text ends with the next quote, which is the first one after it.
                if kind is not None:
                    _demand(pa.types.is_string(kind))
                    arrays[member.name] = self._cut(begin, end)
            else:
                _demand(bool((end > begin).all()))
                arrays[member.name] = self._scalars(begin, end, kind, member.name)
        count = self._quotes.shape[1]
        columns = [arrays[field.name] if field.name in arrays else pa.nulls(count, field.type) for field in schema]
        return pa.table(columns, schema=schema)

    def _expect(self, starts: Sequence[Places], literals: Sequence[bytes]) -> None:
        others = np.zeros(self._quotes.shape[1], dtype=np.uint64)
        for at, literal in zip(starts, literals, strict=True):
            # They ascend, as quotes do.
            _demand(bool(at[0] >= 0 and at[-1] + len(literal) <= len(self._found)))
            for start in range(0, len(literal), _WORD):
                others |= self._differences(at + start, literal[start : start + _WORD])
        _demand(not others.any())

    def _differences(self, at: Places, piece: bytes) -> np.ndarray:
        """The bits in which at most eight bytes at each place are others."""
        words = self._words[at]
        words ^= np.uint64(int.from_bytes(piece, "little"))
        if len(piece) < _WORD:
            words &= np.uint64((1 << 8 * len(piece)) - 1)
        return words

    def _are(self, begin: Places, end: Places, word: bytes) -> Mask:
        """Which values are this word."""
        found: Mask = (self._differences(begin, word) == 0) & (end - begin == len(word))
        return found

    def _cut(self, begin: Places, end: Places, nulls: Mask | None = None) -> pa.StringArray:
        """Cut the texts between pairs of places, with nulls where the mask has them."""
        borders = np.empty(2 * len(begin), dtype=np.int32)
        borders[0::2], borders[1::2] = begin, end
        between = pa.StringArray.from_buffers(len(borders) - 1, pa.py_buffer(borders), pa.py_buffer(self._padded))
        return between.take(self._evens if nulls is None else pa.array(self._evens.to_numpy(), mask=nulls))

    def _scalars(self, begin: Places, end: Places, kind: pa.DataType | None, name: str) -> pa.Array:
        """Numbers, bools and nulls; of any kind where no column has them."""
        is_wanted = kind == pa.float64()
        first = self._found[begin]
        nulls = None
        if (first == ord("n")).any():
            nulls = self._are(begin, end, b"null")
            if nulls.all():
                return pa.nulls(len(nulls), pa.null() if kind is None else kind)
        if kind is None:
            kind = pa.bool_() if ((first == ord("t")) | (first == ord("f"))).any() else pa.float64()
        _demand(kind in _TYPES or pa.types.is_decimal(kind))
        if kind == pa.bool_():
            are_true, are_false = (self._are(begin, end, word) for word in (b"true", b"false"))
            _demand(bool(np.all(are_true | are_false | (nulls is not None and nulls))))
            return pa.array(are_true, mask=nulls)
        texts = self._cut(begin, end, nulls)
        if nulls is not None:
            begin, end = begin[~nulls], end[~nulls]
        has_exponents = self._demand_numbers(begin, end, texts)
        if pa.types.is_decimal(kind):
            numbers = decimal_columns.of_texts(texts, None, kind.scale)
            if numbers is None:
                raise _Irregular
            return numbers
        try:
            array = pc.cast(texts, kind)
        except pa.ArrowInvalid:
            raise _Irregular from None
        if kind == pa.float64():
            _demand(pc.all(pc.is_finite(array)).as_py())
        if is_wanted and (has_exponents or (len(begin) and (end - begin).max() > _SHORT)):
            self.long_doubles[name] = texts
        return array

    def _demand_numbers(self, begin: Places, end: Places, texts: pa.StringArray) -> bool:
        """Check that values are spelled as JSON numbers; other texts that Arrow takes differ at their start or end.

        Gives whether some may have an exponent.
        """
        begin = begin + (self._found[begin] == ord("-"))
        first, last = self._found[begin], self._found[end - 1]
        _demand(bool(np.all(_are_digits(first) & _are_digits(last))))
        leading_zeros = np.flatnonzero((first == ord("0")) & (end - begin > 1))
        if len(leading_zeros):
            follows = self._found[begin[leading_zeros] + 1]
            _demand(bool(np.all((follows == ord(".")) | (follows | 0x20 == ord("e")))))
        data = cell_text.characters(texts)
        has_exponents = data.find(b"e") >= 0 or data.find(b"E") >= 0
        if has_exponents:
            _demand(not pc.any(pc.match_substring(texts, ".e", ignore_case=True)).as_py())
        return has_exponents


def _are_digits(found: Bytes) -> Mask:
    digits: Mask = found - np.uint8(ord("0")) < np.uint8(10)
    return digits


def _demand(is_so: bool) -> None:
    if not is_so:
        raise _Irregular
