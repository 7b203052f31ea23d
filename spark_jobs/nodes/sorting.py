"""Sort keys as bytes: one binary value per record, whose byte order is the requested order of a list of fields.

Whatever the fields are, sorting, merging and dividing into ranges then compare one column. Where several columns can be
compared, `columns` returns the same order in numbers. Each field begins with a byte that puts nulls first or last, and
the bytes of the value, inverted where the order is descending: numbers as 8 bytes, most significant first; texts in
UTF-8 with an end mark. Values that carry their kind are ordered by kind first (see `_dynamic`).
"""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_units, types, values

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY = pa.large_binary()
_SIGN = np.uint64(1 << 63)
_NULL_FIRST, _VALUE, _NULL_LAST = 0, 1, 2
#: Ends a text, below every byte that can go on: a zero byte in a text is followed by one that is no end.
_END, _ZERO = b"\0\0", b"\0\xff"
#: The order of kinds in a column that has several; containers are alike.
_RANKS = {
    types.Kind.BOOL: b"\0", types.Kind.INT: b"\1", types.Kind.FLOAT: b"\1", types.Kind.DECIMAL: b"\1",
    types.Kind.STRING: b"\2", types.Kind.DATE: b"\3", types.Kind.DATETIME: b"\4",
    types.Kind.ARRAY: b"\5", types.Kind.MAP: b"\5",
}  # fmt: skip


def field(column: pa.Array, static: types.Type, *, descending: bool = False, nulls_first: bool = False) -> pa.Array:
    """The bytes of one field for each record.

    Args:
        column: its values.
        static: their type.
        descending: whether large values come first.
        nulls_first: whether nulls come before all values, else after them; `descending` has no part in it.
    """
    if _has_kinds(static):
        body = _dynamic(column, static)
    elif static.kind is types.Kind.STRING:
        body = _text(column)
    elif static.kind is types.Kind.DECIMAL:
        body = fixed(np.concatenate([big_endian(word) for word in _words(column)], axis=1))
    else:
        body = fixed(big_endian(number(column, static)))
    if descending:
        body = _inverted(body)
    marks = _marks(column, nulls_first=nulls_first)
    if column.null_count:
        body = pc.if_else(pa.array(marks == _VALUE), body, pa.scalar(b"", KEY))
    return joined([fixed(marks.reshape(len(column), 1)), body])


def columns(
    column: pa.Array, static: types.Type, *, descending: bool = False, nulls_first: bool = False
) -> list[pa.Array]:
    """Sort keys as columns of signed numbers and bytes without nulls, the most important one first.

    They are made and compared in a part of the time of `field`, whose bytes are one value.
    """
    if _has_kinds(static):
        return [field(column, static, descending=descending, nulls_first=nulls_first)]
    marks = pa.array(_marks(column, nulls_first=nulls_first).astype(np.int8))
    if static.kind is types.Kind.DECIMAL:
        parts = [(word ^ _SIGN).view(np.int64) for word in _words(column)]
        return [marks, *(pa.array(~part if descending else part) for part in parts)]
    body: pa.Array
    if static.kind is not types.Kind.STRING:
        signed = (number(column, static) ^ _SIGN).view(np.int64)
        body = pa.array(~signed if descending else signed)
    else:
        body = _inverted(_text(column)) if descending else pc.cast(column.fill_null(""), pa.binary())
    return [marks, body]


def ranks(column: pa.Array) -> np.ndarray:
    """The ranks of texts or bytes, from 0. Each distinct value is compared once. Ranks of nulls are undefined."""
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    found = np.zeros(max(len(order), 1), np.int64)
    found[order] = np.arange(len(order))
    chosen: np.ndarray = found[encoded.indices.fill_null(0).to_numpy()]
    return chosen


def width(static: types.Type) -> int:
    """The number of columns that `columns` returns for a type."""
    if _has_kinds(static):
        return 1
    return 3 if static.kind is types.Kind.DECIMAL else 2


def _has_kinds(static: types.Type) -> bool:
    return static.is_dynamic or static.kind is types.Kind.ARRAY


def _marks(column: pa.Array, *, nulls_first: bool) -> np.ndarray:
    """A byte for each record that sorts nulls first or last."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    found: np.ndarray = np.where(valid, _VALUE, _NULL_FIRST if nulls_first else _NULL_LAST).astype(np.uint8)
    return found


def joined(parts: Sequence[pa.Array]) -> pa.Array:
    """The bytes of several fields, one after another."""
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", KEY))


def big_endian(numbers: Any) -> np.ndarray:
    """Unsigned numbers as rows of 8 bytes that have their order."""
    wide = np.asarray(numbers, dtype=">u8")
    return wide.view(np.uint8).reshape(len(wide), 8)


def fixed(matrix: np.ndarray) -> pa.Array:
    """Bytes of equal length from a matrix with a row per record."""
    rows, width = matrix.shape
    ends = np.arange(rows + 1, dtype=np.int64) * width
    return binary(ends, np.ascontiguousarray(matrix))


def binary(ends: np.ndarray, data: Any) -> pa.Array:
    """Bytes by where they end, in something that holds them."""
    return pa.Array.from_buffers(KEY, len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def number(column: pa.Array, static: types.Type) -> np.ndarray:
    """Numbers, dates and truth values as unsigned numbers in the same order; Decimals whose units fit 64 bits."""
    if static.kind is types.Kind.FLOAT:
        return _float(column.fill_null(0.0).to_numpy(zero_copy_only=False))
    if static.kind is types.Kind.DECIMAL:
        return decimal_units.units(column)[0].view(np.uint64) ^ _SIGN
    if static.kind is types.Kind.DATE:
        column = pc.cast(column, pa.int32())
    plain = pc.cast(column, pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    ordered: np.ndarray = plain.view(np.uint64) ^ _SIGN
    return ordered


def _words(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Decimals of one scale as two unsigned numbers each, which have their order together."""
    low, high = decimal_units.words(column)
    return high.view(np.uint64) ^ _SIGN, low


def _float(numbers: np.ndarray) -> np.ndarray:
    """0.0 and -0.0 are alike; NaN comes after all numbers."""
    plain = numbers + 0.0
    plain[np.isnan(plain)] = np.nan
    bits = plain.view(np.uint64)
    ordered: np.ndarray = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return ordered


def _text(column: pa.Array) -> pa.Array:
    texts = pc.cast(pc.cast(column.fill_null(""), pa.large_string()), KEY)
    if pc.any(pc.match_substring(texts, b"\0")).as_py():
        texts = pc.replace_substring(texts, b"\0", _ZERO)
    return pc.binary_join_element_wise(texts, pa.scalar(_END, KEY), pa.scalar(b"", KEY))


def _inverted(body: pa.Array) -> pa.Array:
    """The opposite order. Bodies end in a mark or are as long as all of their kind, so that none begins another."""
    ends = np.frombuffer(body.buffers()[1], dtype=np.int64)[body.offset : body.offset + len(body) + 1]
    data = np.frombuffer(body.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]] if len(body) else np.zeros(0, np.uint8)
    return binary(np.ascontiguousarray(ends - ends[0]), ~data)


def _dynamic(column: pa.Array, static: types.Type) -> pa.Array:
    """Values that carry their kind: truth values, numbers, texts, dates, date-times, containers (all alike)."""
    found = values.from_arrow(column, static)
    return pa.array([b"" if value is None else _value(value) for value in found], KEY)


def _parts(number: Any) -> list[float]:
    """A number as the nearest float, what it has more than that, likewise, and what it still has more.

    So all 64 bits of an Int count and all 38 digits of a Decimal: two of them differ by more than three floats lose.
    """
    near = float(number)
    if isinstance(number, float):
        return [near, 0.0, 0.0]
    if isinstance(number, int):
        return [near, float(number - int(near)), 0.0]
    rest = Fraction(number) - Fraction(near)
    more = float(rest)
    return [near, more, float(rest - Fraction(more))]


def _value(value: Any) -> bytes:
    kind = values.kind_of(value)
    rank = _RANKS[kind]
    match kind:
        case types.Kind.INT | types.Kind.FLOAT | types.Kind.DECIMAL:
            return rank + struct.pack(">QQQ", *_float(np.array(_parts(value))).tolist())
        case types.Kind.STRING:
            text: bytes = value.encode()
            return rank + text.replace(b"\0", _ZERO) + _END
        case types.Kind.ARRAY | types.Kind.MAP:
            return rank
        case _:
            static = types.Type(kind)
            return rank + struct.pack(">Q", int(number(values.to_arrow([value], static), static)[0]))
