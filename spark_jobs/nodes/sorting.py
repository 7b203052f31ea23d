"""Sort keys as bytes: one binary value per record, whose byte order is the requested order of a list of fields.

Sorting, merging and dividing into ranges then compare one column, whatever the fields are. `columns` returns the same
order as numbers, for callers that can compare several columns. Each field begins with a byte that puts nulls first or
last. The bytes of the value follow, inverted in descending order: numbers as 8 bytes, most significant first; texts in
UTF-8 with an end mark. Dynamic values are ordered by their type first (see `_dynamic`).
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
#: The end mark of a text sorts before every continuation: a zero byte in a text is followed by a byte that is no end.
_END, _ZERO = b"\0\0", b"\0\xff"
#: The order of types in a dynamic column. Containers rank equal.
_RANKS = {
    types.Kind.BOOL: b"\0", types.Kind.INT: b"\1", types.Kind.FLOAT: b"\1", types.Kind.DECIMAL: b"\1",
    types.Kind.STRING: b"\2", types.Kind.DATE: b"\3", types.Kind.DATETIME: b"\4",
    types.Kind.ARRAY: b"\5", types.Kind.MAP: b"\5",
}  # fmt: skip


def field(column: pa.Array, static: types.Type, *, descending: bool = False, nulls_first: bool = False) -> pa.Array:
    """The bytes of one field for each record.

    Args:
        column: its values.
        static: the type of the values.
        descending: large values come first.
        nulls_first: nulls come before all values, otherwise after them, whatever `descending` is.
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
    """Sort keys as columns of signed numbers and bytes without nulls, the most significant one first.

    Making and comparing them takes a fraction of the time of `field`.
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
    """Concatenate the bytes of several fields."""
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", KEY))


def big_endian(numbers: Any) -> np.ndarray:
    """Unsigned numbers as rows of 8 bytes that sort like the numbers."""
    wide = np.asarray(numbers, dtype=">u8")
    return wide.view(np.uint8).reshape(len(wide), 8)


def fixed(matrix: np.ndarray) -> pa.Array:
    """Bytes of equal length from a matrix with a row per record."""
    rows, width = matrix.shape
    ends = np.arange(rows + 1, dtype=np.int64) * width
    return binary(ends, np.ascontiguousarray(matrix))


def binary(ends: np.ndarray, data: Any) -> pa.Array:
    """Byte values from their end offsets and the concatenated data."""
    return pa.Array.from_buffers(KEY, len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def number(column: pa.Array, static: types.Type) -> np.ndarray:
    """Numbers, dates and booleans as unsigned numbers in the same order. Decimals must have units that fit 64 bits."""
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
    """Decimals of one scale as two unsigned numbers each, which sort together like the Decimals."""
    low, high = decimal_units.words(column)
    return high.view(np.uint64) ^ _SIGN, low


def _float(numbers: np.ndarray) -> np.ndarray:
    """Floats as unsigned numbers: 0.0 equals -0.0, and NaN comes after all numbers."""
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
    """The reverse order. Bodies have an end mark or equal lengths, so none is a prefix of another."""
    ends = np.frombuffer(body.buffers()[1], dtype=np.int64)[body.offset : body.offset + len(body) + 1]
    data = np.frombuffer(body.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]] if len(body) else np.zeros(0, np.uint8)
    return binary(np.ascontiguousarray(ends - ends[0]), ~data)


def _dynamic(column: pa.Array, static: types.Type) -> pa.Array:
    """Dynamic values: booleans, numbers, texts, dates, date-times, then containers, which rank equal."""
    found = values.from_arrow(column, static)
    return pa.array([b"" if value is None else _value(value) for value in found], KEY)


def _parts(number: Any) -> list[float]:
    """A number as the sum of three floats, each the nearest to the rest.

    They hold all 64 bits of an Int and all 38 digits of a Decimal: different numbers have different parts.
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
