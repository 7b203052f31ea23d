"""Encodes each record of a columnar format as bytes, since sorted and split outputs move records separately.

A record is a size, a byte and a slot of eight bytes for each column, and after these its texts. A slot has a number,
or how long the text is; lists are texts of JSON. All of it is made and read by columns.
"""

from __future__ import annotations

import errno
import json
import struct
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK_BYTES = 4 << 20
_SIZE = struct.Struct("<I")


class Rows:
    """Records as bytes, and back.

    Args:
        schema: their columns, as the file has them.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        count = len(schema)
        self._fixed = np.dtype([("size", "<u4"), ("valid", "u1", (count,)), ("slots", "<i8", (count,))])

    def encode(self, batch: pa.RecordBatch) -> tuple[bytes, np.ndarray]:
        """The bytes of some records, and where each ends."""
        count = batch.num_rows
        fixed = np.zeros(count, dtype=self._fixed)
        texts: list[pa.Array] = []
        for place, array in enumerate(batch.columns):
            fixed["valid"][:, place] = array.is_valid().to_numpy(zero_copy_only=False)
            if _is_text(array.type):
                text = _texts(array)
                fixed["slots"][:, place] = pc.binary_length(text).to_numpy(zero_copy_only=False)
                texts.append(text)
            else:
                fixed["slots"][:, place] = _numbers(array)
        places = [place for place, field in enumerate(self._schema) if _is_text(field.type)]
        sizes = self._fixed.itemsize + fixed["slots"][:, places].sum(axis=1, dtype=np.int64)
        fixed["size"] = sizes
        return _woven(fixed, texts), np.cumsum(sizes)

    def decode(self, source: IO[bytes]) -> Iterator[pa.RecordBatch]:
        """The records of a stream.

        Raises:
            OSError: it ends within one.
        """
        held = b""
        while chunk := source.read(_CHUNK_BYTES):
            held += chunk
            starts, at = [], 0
            while at + _SIZE.size <= len(held):
                size = _SIZE.unpack_from(held, at)[0]
                if size < self._fixed.itemsize or at + size > len(held):
                    break
                starts.append(at)
                at += size
            if starts:
                yield self._batch(np.frombuffer(held, np.uint8), np.array(starts, dtype=np.int64))
                held = held[at:]
        if held:
            raise OSError(errno.EIO, "the records of a part end within one; run again")

    def _batch(self, data: np.ndarray, starts: np.ndarray) -> pa.RecordBatch:
        fixed = data[starts[:, None] + np.arange(self._fixed.itemsize)].view(self._fixed)[:, 0]
        at = starts + self._fixed.itemsize
        arrays = []
        for place, field in enumerate(self._schema):
            valid, slots = fixed["valid"][:, place] != 0, np.ascontiguousarray(fixed["slots"][:, place])
            if not _is_text(field.type):
                arrays.append(_of_numbers(slots, valid, field.type))
                continue
            ends = np.cumsum(slots)
            index = np.arange(int(ends[-1])) + np.repeat(at - ends + slots, slots)
            arrays.append(_of_texts(data[index], ends, valid, field.type))
            at = at + slots
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_list(kind) or pa.types.is_decimal(kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of a list's values in JSON."""
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_decimal(kind):
        return pa.string()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _texts(array: pa.Array) -> pa.Array:
    """The texts of a column as bytes, none of nulls."""
    if pa.types.is_list(array.type):
        array = pa.array([json.dumps(value) for value in array.cast(_plain(array.type)).to_pylist()], pa.string())
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())
    return pc.fill_null(array.cast(pa.large_binary()), b"")


def _of_texts(data: np.ndarray, ends: np.ndarray, valid: np.ndarray, kind: pa.DataType) -> pa.Array:
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    buffers = [pa.py_buffer(np.packbits(valid, bitorder="little")), pa.py_buffer(offsets), pa.py_buffer(data)]
    texts = pa.Array.from_buffers(pa.large_string(), len(valid), buffers).cast(pa.string())
    if pa.types.is_decimal(kind):
        return pc.cast(texts, kind)
    if not pa.types.is_list(kind):
        return texts
    found: list[Any] = [None if text is None else json.loads(text) for text in texts.to_pylist()]
    return pa.array(found, _plain(kind)).cast(kind)


def _numbers(array: pa.Array) -> np.ndarray:
    """The values of a column as 64 bits each, zeros for nulls."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.int64)
    if pa.types.is_floating(array.type):
        found: np.ndarray = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False)
        return found.view(np.int64)
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    numbers: np.ndarray = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return numbers


def _of_numbers(slots: np.ndarray, valid: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(slots), kind)
    numbers = pa.array(slots, pa.int64(), mask=~valid)
    if pa.types.is_floating(kind):
        return numbers.view(kind)
    return numbers.cast(pa.int32()).cast(kind) if pa.types.is_date(kind) else numbers.cast(kind)


def _woven(fixed: np.ndarray, texts: list[pa.Array]) -> bytes:
    """The fixed parts of records, each with its texts after it."""
    count = len(fixed)
    if not texts or not count:
        return fixed.tobytes()
    ends = np.arange(count + 1, dtype=np.int64) * fixed.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(fixed.tobytes())]
    heads = pa.Array.from_buffers(pa.large_binary(), count, buffers)
    order = (np.arange(count)[:, None] + count * np.arange(len(texts) + 1)).ravel()
    woven = pa.concat_arrays([heads, *texts]).take(pa.array(order))
    last = int(np.frombuffer(woven.buffers()[1], np.int64)[len(order)])
    return memoryview(woven.buffers()[2])[:last].tobytes()
