"""Partition values, derived from column values as Iceberg's specification says."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.tables.partitions import Partition, Transform

if TYPE_CHECKING:
    from collections.abc import Callable

    Numbers = np.ndarray[Any, Any]

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
#: Texts are hashed so many bytes at a time.
_HASHED_BYTES = 4 << 20
#: The constants of 32-bit MurmurHash3.
_FIRST, _SECOND, _THIRD = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_MOST_INT = 0x7FFFFFFF
#: The digits of the widest decimals of Arrow.
_MOST_DIGITS = 76


def problem(transform: Transform, kind: pa.DataType) -> str | None:
    """Why values of a type have no such partitions; None where they have.

    Args:
        transform: the partition transform.
        kind: the type of the column.
    """
    is_moment = pa.types.is_timestamp(kind) and kind.unit == "us"
    is_exact = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind)
    fits = {
        Transform.IDENTITY: not pa.types.is_nested(kind),
        Transform.YEAR: is_moment or pa.types.is_date32(kind),
        Transform.MONTH: is_moment or pa.types.is_date32(kind),
        Transform.DAY: is_moment or pa.types.is_date32(kind),
        Transform.HOUR: is_moment,
        Transform.BUCKET: is_exact or is_moment or pa.types.is_date32(kind),
        Transform.TRUNCATE: is_exact,
        Transform.VOID: True,
    }
    return None if fits[transform] else f"there is no {transform} of {kind}"


def values(partition: Partition, rows: pa.Table) -> pa.Array:
    """The values of a partition of each row.

    Args:
        partition: which.
        rows: have its column.
    """
    if partition.transform is Transform.VOID:
        return pa.nulls(rows.num_rows)
    column: Any = rows.column(partition.column).combine_chunks()
    found: pa.Array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    if partition.transform is Transform.IDENTITY:
        return found
    if partition.transform is Transform.BUCKET:
        return _buckets(found, partition.argument)
    if partition.transform is Transform.TRUNCATE:
        return _truncated(found, partition.argument)
    return _of_time(found, partition.transform)


def _of_time(array: pa.Array, transform: Transform) -> pa.Array:
    """The year, month, day or hour of moments and dates: a day as a date, all others as a number since 1970."""
    missing, is_date = _missing(array), pa.types.is_date32(array.type)
    numbers = _whole(array)
    if transform is Transform.HOUR:
        return pa.array((numbers // _HOUR).astype(np.int32), mask=missing)
    days = numbers if is_date else numbers // _DAY
    if transform is Transform.DAY:
        return pa.array(days.astype(np.int32), mask=missing).cast(pa.date32())
    unit: Any = "datetime64[M]" if transform is Transform.MONTH else "datetime64[Y]"
    return pa.array(days.astype("datetime64[D]").astype(unit).astype(np.int32), mask=missing)


def _truncated(array: pa.Array, width: int) -> pa.Array:
    """Truncate texts to their first characters, and numbers down to a multiple of a width."""
    kind = array.type
    if pa.types.is_string(kind):
        return pc.utf8_slice_codeunits(array, 0, width)
    if pa.types.is_integer(kind):
        numbers: Numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
        if width > np.iinfo(numbers.dtype).max:
            numbers = numbers.astype(np.int64)
        with np.errstate(over="ignore"):  # the lowest numbers go round, as in Java
            return pa.array(numbers - numbers % np.asarray(width, numbers.dtype), mask=_missing(array))

    def cut_decimal(value: Decimal) -> Decimal:
        digits = _unscaled(value, kind.scale)
        found = digits - digits % width
        # Not by arithmetic, which rounds to the digits of its context.
        return Decimal((int(found < 0), tuple(map(int, str(abs(found)))), -kind.scale))

    # The next number below may have a digit more than the column.
    arrow: Any = pa
    return _each(array, cut_decimal, arrow.decimal256(_MOST_DIGITS, kind.scale))


def _buckets(array: pa.Array, count: int) -> pa.Array:
    """The number of the bucket of each value."""
    kind = array.type
    if pa.types.is_string(kind):
        hashes = _hashes_of_bytes(array.cast(pa.binary()))
    elif pa.types.is_decimal(kind):
        hashes = _hashes_of_bytes(_each(array, lambda value: _least_bytes(_unscaled(value, kind.scale)), pa.binary()))
    else:
        hashes = _hashes_of_numbers(_whole(array))
    return pa.array(((hashes & np.uint32(_MOST_INT)).astype(np.int64) % count).astype(np.int32), mask=_missing(array))


def _missing(array: pa.Array) -> Numbers:
    found: Numbers = array.is_null().to_numpy(zero_copy_only=False)
    return found


def _whole(array: pa.Array) -> Numbers:
    """Convert to ints, days or microseconds; 0 for nulls."""
    numbers = array.cast(pa.int32()) if pa.types.is_date32(array.type) else array
    found: Numbers = pc.fill_null(numbers.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return found


def _each(array: pa.Array, made: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Apply a function to each distinct value of an array; nulls stay null."""
    known: Any = array.dictionary_encode()
    values_made = [None if value is None else made(value) for value in known.dictionary.to_pylist()]
    found: pa.Array = pa.array(values_made, kind).take(known.indices)
    return found


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    whole: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -whole if sign else whole


def _least_bytes(number: int) -> bytes:
    """A number in as few bytes as its two's complement needs, the highest first."""
    size = ((number if number >= 0 else -number - 1).bit_length() // 8) + 1
    return number.to_bytes(size, "big", signed=True)


def _hashes_of_numbers(numbers: Numbers) -> Numbers:
    words = numbers.astype("<i8").view("<u4").reshape(-1, 2)
    return _finished(_mixed(_mixed(np.zeros(len(words), np.uint32), words[:, 0]), words[:, 1]), 8)


def _hashes_of_bytes(array: Any) -> Numbers:
    """Hash each value of a bytes column; values of equal length are hashed together."""
    if not len(array):
        return np.zeros(0, np.uint32)
    array = pc.fill_null(array, b"")
    _, borders, data = array.buffers()
    offsets = np.frombuffer(borders, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    lengths, found = np.diff(offsets), np.zeros(len(array), np.uint32)
    order = np.argsort(lengths, kind="stable")
    for some in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        length = int(lengths[some[0]])
        step = max(1, _HASHED_BYTES // max(1, length))
        for at in range(0, len(some), step):
            own = some[at : at + step]
            found[own] = _hashes_of_equal_lengths(bytes_[offsets[own][:, None] + np.arange(length)], length)
    return found


def _hashes_of_equal_lengths(rows: Numbers, length: int) -> Numbers:
    hashes, whole = np.zeros(len(rows), np.uint32), length // 4 * 4
    for at in range(0, whole, 4):
        hashes = _mixed(hashes, _word(rows, at, at + 4))
    if whole < length:
        hashes ^= _scrambled(_word(rows, whole, length))
    return _finished(hashes, length)


def _word(rows: Numbers, first: int, end: int) -> Numbers:
    """Some bytes of each row as a number, the lowest first."""
    found = np.zeros(len(rows), np.uint32)
    for at in range(first, end):
        found |= rows[:, at].astype(np.uint32) << np.uint32(8 * (at - first))
    return found


def _scrambled(words: Numbers) -> Numbers:
    found = words.astype(np.uint32) * _FIRST
    return _rotated(found, 15) * _SECOND


def _mixed(hashes: Numbers, words: Numbers) -> Numbers:
    return _rotated(hashes ^ _scrambled(words), 13) * np.uint32(5) + _THIRD


def _rotated(words: Numbers, bits: int) -> Numbers:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _finished(hashes: Numbers, length: int) -> Numbers:
    found = hashes ^ np.uint32(length)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ (found >> np.uint32(shift))) * np.uint32(factor)
    return found ^ (found >> np.uint32(16))
