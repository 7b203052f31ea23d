"""Hash partitioning: equal keys get the same partition in every task, on every machine and in every Python version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BITS = 0xFFFF_FFFF_FFFF_FFFF
_BYTE_MULTIPLIER = np.uint64(0x100000001B3)
#: Bytes of text that are hashed at once. Each byte takes a few numbers of 8 bytes, which should stay in the cache.
_HASHED_BYTES = 1 << 16
_MOST_NARROW = np.iinfo(np.uint16).max


def hashes(keys: Sequence[pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """A hash of 64 bits for each row, equal for equal keys."""
    mixed = np.zeros(len(keys[0]), dtype=np.uint64)
    for key in keys:
        mixed = _mix(mixed * _MULTIPLIER + _hash(key))
    return mixed


def numbers(keys: Sequence[pa.Array | pa.ChunkedArray], partitions: int, salt: int = 0) -> np.ndarray:
    """The partition of each row, 0 to `partitions` - 1. Another salt spreads rows that share a partition."""
    mixed = hashes(keys)
    if salt:
        mixed = _mix(mixed + np.uint64(salt * int(_MULTIPLIER) & _BITS))
    chosen: np.ndarray = ((mixed >> np.uint64(33)) % np.uint64(partitions)).astype(np.int64)
    return chosen


def split(table: pa.Table, keys: Sequence[str], partitions: int) -> Iterator[tuple[int, pa.Table]]:
    """The nonempty partitions with their rows, in order."""
    if partitions == 1:
        return iter([(0, table)] if table.num_rows else [])
    return cut(table, numbers([table.column(name) for name in keys], partitions))


def cut(table: pa.Table, chosen: np.ndarray) -> Iterator[tuple[int, pa.Table]]:
    """The rows for each number in `chosen`, in order."""
    if not len(chosen):
        return
    if (chosen[1:] < chosen[:-1]).any():
        # Numpy sorts numbers of 16 bits by radix sort, which takes a fraction of the time.
        narrow = chosen.astype(np.uint16) if chosen.min() >= 0 and chosen.max() <= _MOST_NARROW else chosen
        order = np.argsort(narrow, kind="stable")
        table, chosen = table.take(pa.array(order)), chosen[order]
    borders = np.flatnonzero(chosen[1:] != chosen[:-1]) + 1
    for start, end in zip([0, *borders], [*borders, len(chosen)], strict=True):
        yield int(chosen[start]), table.slice(start, end - start)


def _mix(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = bits ^ (bits >> np.uint64(31))
    return mixed


def _hash(key: pa.Array | pa.ChunkedArray) -> np.ndarray:
    if isinstance(key, pa.ChunkedArray):
        key = key.combine_chunks()
    if pa.types.is_string(key.type):
        return _hash_texts(key)
    if pa.types.is_decimal(key.type):
        low, high = decimal_units.words(key)
        of_words: np.ndarray = _mix(_mix(low) + high.view(np.uint64)) + _validity(key)
        return of_words
    if pa.types.is_boolean(key.type):
        key = pc.cast(key, pa.int8())
    if pa.types.is_temporal(key.type):
        key = pc.cast(key, pa.int32() if pa.types.is_date32(key.type) else pa.int64())
    plain = key.fill_null(0).to_numpy(zero_copy_only=False)
    wide = plain.astype(np.float64 if pa.types.is_floating(key.type) else np.int64)
    hashes: np.ndarray = _mix(wide.view(np.uint64)) + _validity(key)
    return hashes


def _hash_texts(key: pa.Array) -> np.ndarray:
    """A polynomial over the bytes of each text, from the column's buffers, some texts at a time."""
    filled = key.fill_null("")
    offsets = np.frombuffer(filled.buffers()[1], dtype=np.int32)[filled.offset : filled.offset + len(filled) + 1]
    if not len(key) or offsets[-1] == offsets[0]:
        return _validity(key)
    data = np.frombuffer(filled.buffers()[2], dtype=np.uint8)
    powers = np.cumprod(np.full(int(np.diff(offsets).max()), _BYTE_MULTIPLIER, dtype=np.uint64))
    totals = np.empty(len(key), dtype=np.uint64)
    start = 0
    while start < len(key):
        bound = np.searchsorted(offsets, offsets[start] + _HASHED_BYTES, side="right") - 1
        end = min(max(int(bound), start + 1), len(key))
        totals[start:end] = _polynomials(data, offsets[start : end + 1], powers)
        start = end
    hashes: np.ndarray = _mix(totals) + _validity(key)
    return hashes


def _polynomials(data: np.ndarray, offsets: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """The hash of each text as a polynomial, modulo 2^64."""
    lengths = np.diff(offsets)
    coefficients = data[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
    position = np.arange(len(coefficients)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    sums = np.concatenate([[np.uint64(0)], np.cumsum(coefficients * powers[position])])
    totals: np.ndarray = sums[offsets[1:] - offsets[0]] - sums[offsets[:-1] - offsets[0]]
    return totals


def _validity(key: pa.Array) -> np.ndarray:
    """1 for values, 0 for nulls, so that a null differs from the value that fills it."""
    bits: np.ndarray = key.is_valid().to_numpy(zero_copy_only=False).astype(np.uint64)
    return bits
