"""Batches to the bytes of Avro records, by columns.

A value is the number of its branch in the union with null, followed by its encoding; a record is the sequence of its
values. Short encodings are written side by side into a table of bytes; its unused places are removed at the end.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The branches of `["null", …]`, as Avro writes them.
_NULL, _VALUE = 0, 2
_DECIMAL_BYTES = 16


def records(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of some records, and where each ends."""
    return _woven([piece for array in batch.columns for piece in _pieces(array)], batch.num_rows)


class _Short:
    """A few bytes of each record.

    Args:
        places: a row for each record.
        used: which of its places are used.
    """

    def __init__(self, places: np.ndarray, used: np.ndarray) -> None:
        self.places = places
        self.used = used


class _Long:
    """Any number of bytes of each record.

    Args:
        data: the bytes of all records.
        ends: the end offset of each record's bytes in `data`; a record begins where the record before it ends.
        start: the offset at which the first record begins.
    """

    def __init__(self, data: np.ndarray, ends: np.ndarray, start: int) -> None:
        self.data = data
        self.ends = ends
        self.start = start


def _pieces(array: pa.Array) -> list[_Short | _Long]:
    """The encoded pieces of a column's values."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_list(array.type):
        return _lists(cast("pa.ListArray", array), valid)
    if pa.types.is_string(array.type):
        texts = pc.fill_null(array.cast(pa.large_binary()), b"")
        offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
        sizes = np.diff(offsets)
        return [_values(_numbers(sizes), valid), _Long(_bytes(texts), offsets[1:], int(offsets[0]))]
    if pa.types.is_decimal(array.type):
        return [_values(_decimals(array), valid)]
    if pa.types.is_floating(array.type):
        floats = np.ascontiguousarray(pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False), "<f8")
        places = floats.view(np.uint8).reshape(-1, 8)
        return [_values(_Short(places, np.ones(places.shape, dtype=bool)), valid)]
    if pa.types.is_boolean(array.type):
        bools = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
        return [_values(_Short(bools[:, None].astype(np.uint8), np.ones((len(bools), 1), dtype=bool)), valid)]
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    return [_values(_numbers(pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)), valid)]


def _lists(array: pa.ListArray, valid: np.ndarray) -> list[_Short | _Long]:
    """Arrays: how many values there are, these, and a zero; of none the zero alone."""
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    items, ends = records(pa.RecordBatch.from_arrays([array.flatten()], names=["item"]))
    bounds = np.concatenate([[0], ends])[np.concatenate([[0], np.cumsum(counts)])]
    closed = np.zeros((len(array), 1), dtype=np.uint8)
    return [
        _values(_numbers(counts), valid),
        _Long(items, bounds[1:], 0),
        _Short(closed, (counts > 0)[:, None]),
    ]


def _numbers(numbers: np.ndarray) -> _Short:
    """Numbers as Avro writes them: seven bits a byte, the lowest first, signs in the last bit."""
    left = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    most = max(1, -(-int(left.max(initial=0)).bit_length() // 7))
    shifted = left[:, None] >> (np.arange(most, dtype=np.uint64) * np.uint64(7))
    goes_on = np.zeros(shifted.shape, dtype=bool)
    goes_on[:, :-1] = shifted[:, 1:] != 0
    places = (shifted & np.uint64(0x7F)).astype(np.uint8) | (goes_on.astype(np.uint8) << 7)
    used = shifted != 0
    used[:, 0] = True
    return _Short(places, used)


def _decimals(array: pa.Array) -> _Short:
    """Decimals of 128 bits as Avro writes them: how many bytes there are, and these, the highest first.

    Bytes at the front that only repeat the sign are left out.
    """
    first, last = array.offset * _DECIMAL_BYTES, (array.offset + len(array)) * _DECIMAL_BYTES
    low_first = np.frombuffer(array.buffers()[1] or b"", np.uint8)[first:last].reshape(-1, _DECIMAL_BYTES)
    digits = low_first[:, ::-1]
    sign = np.where(digits[:, :1] >> 7, np.uint8(0xFF), np.uint8(0))
    is_sign = (digits[:, :-1] == sign) & ((digits[:, 1:] >> 7) == (sign >> 7))
    used = np.ones(digits.shape, dtype=bool)
    used[:, :-1] = ~np.logical_and.accumulate(is_sign, axis=1)
    sizes = (2 * used.sum(axis=1, keepdims=True)).astype(np.uint8)
    places = np.concatenate([sizes, digits], axis=1)
    return _Short(places, np.concatenate([np.ones(sizes.shape, dtype=bool), used], axis=1))


def _values(found: _Short, valid: np.ndarray) -> _Short:
    """The branch number of each value's union, then the value; nothing follows the branch of null."""
    branch = np.where(valid, np.uint8(_VALUE), np.uint8(_NULL))[:, None]
    used = np.concatenate([np.ones(branch.shape, dtype=bool), found.used & valid[:, None]], axis=1)
    return _Short(np.concatenate([branch, found.places], axis=1), used)


def _woven(pieces: list[_Short | _Long], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The pieces of each record after one another."""
    columns: list[_Long] = []
    waiting: list[_Short] = []
    for piece in [*pieces, None]:
        if isinstance(piece, _Short):
            waiting.append(piece)
            continue
        if waiting:
            columns.append(_together(waiting))
            waiting = []
        if piece is not None:
            columns.append(piece)
    if not columns:
        return np.zeros(0, np.uint8), np.zeros(count, np.int64)
    if len(columns) == 1 and not columns[0].start:
        (only,) = columns
        last = int(only.ends[-1]) if count else 0
        return only.data[:last], only.ends
    arrays = []
    for column in columns:
        offsets = np.concatenate([[column.start], column.ends])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(column.data)]
        arrays.append(pa.Array.from_buffers(pa.large_binary(), count, buffers))
    order = (np.arange(count)[:, None] + count * np.arange(len(arrays))).ravel()
    woven = pa.concat_arrays(arrays).take(pa.array(order))
    offsets = np.frombuffer(woven.buffers()[1], np.int64)[: len(order) + 1]
    return _bytes(woven)[: int(offsets[-1])], offsets[len(arrays) :: len(arrays)]


def _bytes(array: pa.Array) -> np.ndarray:
    """All bytes of an array of bytes."""
    found = array.buffers()[2]
    return np.zeros(0, np.uint8) if found is None else np.frombuffer(found, np.uint8)


def _together(found: list[_Short]) -> _Long:
    places = np.concatenate([each.places for each in found], axis=1)
    used = np.concatenate([each.used for each in found], axis=1)
    return _Long(places[used], np.cumsum(used.sum(axis=1), dtype=np.int64), 0)
