"""Columns of Decimals of one scale as whole numbers of units: the last digit after the point is a unit.

This module is independent of CXL, because both values and columns import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    Numbers = np.ndarray[Any, np.dtype[np.int64]]
    Mask = np.ndarray[Any, np.dtype[np.bool_]]

#: The digits of all columns of Decimals.
_DIGITS = 38
_WORD = (1 << 64) - 1
#: Doubles hold whole numbers and powers of ten up to these exactly, so that their quotient is rounded once.
_EXACT_DOUBLE, _EXACT_POWER = 1 << 53, 22


def kind(scale: int) -> pa.DataType:
    """The Arrow type of all columns of a scale."""
    return pa.decimal128(_DIGITS, scale)


def scale_of(column: pa.Array | pa.Scalar) -> int:
    """The digits after the point; Ints have none."""
    return column.type.scale if pa.types.is_decimal(column.type) else 0


def nulls(column: pa.Array) -> Mask | None:
    """The rows that are null; None if none is."""
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


def words(column: pa.Array) -> tuple[np.ndarray, Numbers]:
    """The units of each row as an unsigned lower and a signed upper word of 64 bits; zeros for nulls."""
    data = column.buffers()[1]
    if not len(column) or data is None:
        return np.zeros(len(column), np.uint64), np.zeros(len(column), np.int64)
    first = 2 * column.offset
    pairs = np.frombuffer(data, dtype=np.uint64)[first : first + 2 * len(column)].reshape(-1, 2)
    low, high = pairs[:, 0], pairs[:, 1].view(np.int64)
    missing = nulls(column)
    if missing is not None:
        low, high = np.where(missing, np.uint64(0), low), np.where(missing, 0, high)
    return low, high


def units(column: pa.Array) -> tuple[Numbers, Mask | None]:
    """The units of each row, zero for nulls, and the rows whose units need more than 64 bits; None if none does."""
    if pa.types.is_integer(column.type):
        return column.fill_null(0).to_numpy(zero_copy_only=False), None
    low, high = words(column)
    found = np.ascontiguousarray(low).view(np.int64)
    wide = high != found >> 63
    return found, wide if wide.any() else None


def whole(column: pa.Array) -> list[int]:
    """The units of all rows that are not null, whatever their size."""
    low, high = words(column.drop_null())
    return [(upper << 64) + lower for upper, lower in zip(high.tolist(), low.tolist(), strict=True)]


def of_units(found: Numbers, scale: int, missing: Mask | None = None) -> pa.Array:
    """A column by its units."""
    return of_words(found.view(np.uint64), found >> 63, scale, missing)


def of_words(low: np.ndarray, high: np.ndarray, scale: int, missing: Mask | None = None) -> pa.Array:
    """A column by the words of its units."""
    pairs = np.empty((len(low), 2), np.uint64)
    pairs[:, 0] = low
    pairs[:, 1] = high.view(np.uint64)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(kind(scale), len(low), [valid, pa.py_buffer(pairs)])


def of_numbers(found: Sequence[int | None], scale: int) -> pa.Array:
    """A column by units of any size within 38 digits; None is null."""
    low = np.array([0 if each is None else each & _WORD for each in found], np.uint64)
    high = np.array([0 if each is None else each >> 64 for each in found], np.int64)
    missing = np.array([each is None for each in found], np.bool_)
    return of_words(low, high, scale, missing if missing.any() else None)


def largest(found: np.ndarray) -> int:
    """The largest absolute value; 0 without any."""
    return max(abs(int(found.max())), abs(int(found.min()))) if found.size else 0


def floats(column: pa.Array) -> pa.Array:
    """The nearest double of each number."""
    scale = column.type.scale
    number, wide = units(column)
    if wide is None and scale <= _EXACT_POWER and largest(number) <= _EXACT_DOUBLE:
        return pa.array(number / 10.0**scale, mask=nulls(column))
    return pa.array([None if each is None else float(each) for each in column.to_pylist()], pa.float64())
