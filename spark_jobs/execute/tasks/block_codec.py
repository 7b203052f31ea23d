"""Encodes tables as bytes for shuffles and spill files: narrow, and compressed only where that pays.

Compressing and decompressing all bytes took more processor time than everything else in an exchange. Most of the
savings came from the upper bytes of numbers, from columns with one value, and from duplicate columns. So

- numbers are stored as their distances from the least of them, in as few bytes as these need, or none,
- columns of equal distances share them: a key and the field that it is of, the rows of records and their places,
- texts have their lengths stored, as numbers, instead of Arrow's offsets,
- other buffers are compressed if a sample shows that this makes them much smaller.

Columns of other types are stored as Arrow's own stream. Bytes have the lengths of a schema and a layout in
front, these two, and the buffers that the layout lists, each at a multiple of eight bytes.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa

_SIZES = struct.Struct("<II")
_ALIGNED = 8
_CODEC = "lz4_raw"
#: Buffers of less bytes are not worth a look. Of others a sample has to shrink to this part.
_LEAST, _SAMPLE, _WORTH = 4096, 8192, 0.5
_RAW, _LZ4 = pa.ipc.IpcWriteOptions(), pa.ipc.IpcWriteOptions(compression="lz4")


def encode(table: pa.Table, mode: str = "auto") -> bytes:
    """A table as bytes.

    Args:
        table: the table.
        mode: where its buffers are compressed: `auto` where it pays, `on` wherever they become smaller; with `off` it
            is Arrow's stream, as it is.
    """
    return _Packing(mode).of(table.combine_chunks())


class _Packing:
    """A table on its way to bytes."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        #: The buffers, each with its size when it is opened.
        self._buffers: list[tuple[Any, int]] = []
        #: The distances that are stored, by the column that distinguishes most others.
        self._known: dict[tuple[int, ...], list[tuple[int, np.ndarray]]] = {}

    def of(self, table: pa.Table) -> bytes:
        """The bytes."""
        layout = [self._column(column) for column in table.columns]
        left = [number for number, how in enumerate(layout) if how is None]
        # Without columns Arrow's stream alone keeps how many rows there are.
        others = self._stream(table.select(left)) if left or not layout else None
        sizes = [(len(memoryview(data)), size) for data, size in self._buffers]
        header = {"rows": table.num_rows, "columns": layout, "others": others, "buffers": sizes}
        schema = table.schema.serialize().to_pybytes()
        head = json.dumps(header, separators=(",", ":")).encode()
        parts = [_SIZES.pack(len(schema), len(head)), schema, head, _gap(_SIZES.size + len(schema) + len(head))]
        for (data, _), (stored, _) in zip(self._buffers, sizes, strict=True):
            parts += [data, _gap(stored)]
        return b"".join(parts)

    def _column(self, column: pa.ChunkedArray) -> dict[str, Any] | None:
        """The way in which a column is stored; None if that is left to Arrow."""
        kind = column.type
        is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
        if self._mode == "off" or column.num_chunks != 1 or not (is_text or _is_number(kind)):
            return None
        array: pa.Array = column.chunk(0)
        _, first, *more = array.buffers()
        start, end = array.offset, array.offset + len(array)
        if first is None or not len(array):
            return None
        head: dict[str, Any] = {"valid": self._valid(array)}
        if not is_text:
            values = np.frombuffer(first, dtype=f"i{kind.bit_width // 8}")[start:end]
            return head | {"numbers": self._numbers(values)}
        offsets = np.frombuffer(first, dtype=np.int32)[start : end + 1]
        head["numbers"] = self._numbers(np.diff(offsets))
        size = int(offsets[-1] - offsets[0])
        head["texts"] = self._buffer(more[0].slice(int(offsets[0]), size) if size else b"")
        return head

    def _valid(self, array: pa.Array) -> int | None:
        """The packed validity bits of a column, as a buffer number; None without nulls."""
        if not array.null_count:
            return None
        is_valid = array.is_valid().to_numpy(zero_copy_only=False)
        return self._buffer(np.packbits(is_valid, bitorder="little"))

    def _numbers(self, values: np.ndarray) -> tuple[int, int, int]:
        """The least of some numbers, in how many bytes the distances are stored, and in which buffer."""
        low, size = int(values.min()), values.dtype.itemsize
        most = int(values.max()) - low
        if not most:
            return low, 0, 0
        width = next((width for width in (1, 2, 4) if width < size and most >> 8 * width == 0), size)
        if width == size:
            low, stored = 0, values
        else:
            stored = (values - values.dtype.type(low)).astype(f"u{width}")
        alike = self._known.setdefault((width, most, int(stored[0]), int(stored[-1])), [])
        for number, other in alike:
            if np.array_equal(stored, other):
                return low, width, number
        number = self._buffer(np.ascontiguousarray(stored))
        alike.append((number, stored))
        return low, width, number

    def _buffer(self, data: Any) -> int:
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        found: Any = view
        if self._mode == "on" or (len(view) >= _LEAST and _shrinks(view[:_SAMPLE])):
            smaller = pa.compress(view, codec=_CODEC, asbytes=True)
            found = smaller if len(smaller) < len(view) else view
        self._buffers.append((found, len(view)))
        return len(self._buffers) - 1

    def _stream(self, table: pa.Table) -> int:
        """Columns as Arrow stores them."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_RAW if self._mode == "off" else _LZ4) as stream:
            stream.write_table(table)
        data = sink.getvalue()
        self._buffers.append((data, len(memoryview(data))))
        return len(self._buffers) - 1


def decode(data: bytes) -> pa.Table:
    """The table that was packed. It keeps nothing of the bytes, which may be much more than one of its columns."""
    view = pa.py_buffer(data)
    first, second = _SIZES.unpack_from(data)
    header_end = _SIZES.size + first + second
    schema = pa.ipc.read_schema(view.slice(_SIZES.size, first))
    layout = json.loads(data[header_end - second : header_end])
    at, buffers = header_end + len(_gap(header_end)), []
    for stored, size in layout["buffers"]:
        piece = view.slice(at, stored)
        buffers.append(piece if stored == size else pa.decompress(piece, size, codec=_CODEC))
        at += stored + len(_gap(stored))
    left = layout["others"]
    if not layout["columns"]:
        return pa.ipc.open_stream(buffers[left]).read_all()
    others = iter([] if left is None else pa.ipc.open_stream(buffers[left]).read_all().columns)
    columns = [
        next(others) if how is None else _column(field.type, layout["rows"], how, buffers)
        for field, how in zip(schema, layout["columns"], strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(kind: pa.DataType, count: int, how: dict[str, Any], buffers: list[pa.Buffer]) -> pa.Array:
    is_valid = None if how["valid"] is None else _copied(buffers[how["valid"]])
    low, width, number = how["numbers"]
    stored = np.frombuffer(memoryview(buffers[number]), dtype=f"u{width}", count=count) if width else None
    if "texts" not in how:
        values, room = _room(f"i{kind.bit_width // 8}", count)
        _distances(stored, low, values)
        return pa.Array.from_buffers(kind, count, [is_valid, room])
    offsets, room = _room("i4", count + 1)
    offsets[0] = 0
    _distances(stored, low, offsets[1:])
    np.cumsum(offsets[1:], out=offsets[1:])
    return pa.Array.from_buffers(kind, count, [is_valid, room, _copied(buffers[how["texts"]])])


def _distances(stored: np.ndarray | None, low: int, values: np.ndarray) -> None:
    """Lay out numbers by their distances from the least of them."""
    if stored is None:
        values[:] = low
    elif stored.itemsize == values.itemsize:
        values[:] = stored.view(values.dtype)
    else:
        np.add(stored, values.dtype.type(low), out=values, casting="unsafe")


def _room(dtype: str, count: int) -> tuple[np.ndarray, pa.Buffer]:
    """Memory of Arrow's for numbers, and the numbers in it."""
    room = pa.allocate_buffer(count * np.dtype(dtype).itemsize)
    return np.frombuffer(memoryview(room), dtype=dtype), room


def _copied(buffer: pa.Buffer) -> pa.Buffer:
    """A copy of the bytes."""
    values, room = _room("u1", buffer.size)
    values[:] = np.frombuffer(memoryview(buffer), dtype="u1")
    return room


def _is_number(kind: pa.DataType) -> bool:
    """True if values have 1, 2, 4 or 8 bytes, which are numbers in some sense; floats are by their bits."""
    return pa.types.is_primitive(kind) and kind.bit_width in (8, 16, 32, 64)


def _shrinks(sample: memoryview) -> bool:
    return len(pa.compress(sample, codec=_CODEC, asbytes=True)) <= _WORTH * len(sample)


def _gap(size: int) -> bytes:
    """The padding up to a multiple of eight bytes."""
    return bytes(-size % _ALIGNED)
