"""Batches to Avro files: a header, and blocks of records, each with a marker after it.

Blocks are cut by the bytes of their records alone, and the marker is derived from the schema, so a file does not depend
on the tasks that wrote its parts. Records are encoded after the parts have been joined (`typed/write.py`).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats.avro import container, encoding
from spark_jobs.formats.avro.options import BlockCompression
from spark_jobs.formats.typed.write import TypedWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.formats.avro.options import AvroWrite

#: A block is closed with the record that makes it as large, before it is compressed.
BLOCK_BYTES = 64 << 10
#: The number of records that are encoded at a time: their tables fit into the processor's cache.
_MOST_RECORDS = 1 << 13
_NAMES = {
    BlockCompression.DEFLATE: "deflate",
    BlockCompression.SNAPPY: "snappy",
    BlockCompression.ZSTD: "zstandard",
    BlockCompression.NONE: "null",
}


class AvroWriter(TypedWriter):
    """Writes Avro files."""

    _options: AvroWrite

    def _opened(self, sink: IO[bytes], schema: pa.Schema) -> _File:
        return _File(sink, schema, _NAMES[self._options.compression])


class _File:
    """A file on its way.

    Args:
        sink: where it goes.
        schema: its columns.
        codec: how its blocks are compressed.
    """

    def __init__(self, sink: IO[bytes], schema: pa.Schema, codec: str) -> None:
        self._sink = sink
        self._pack = _PACKERS[codec]
        fields = [{"name": one.name, "type": ["null", _type(one.type)]} for one in schema]
        header = json.dumps({"type": "record", "name": "row", "fields": fields}).encode()
        self._marker = hashlib.md5(header, usedforsecurity=False).digest()
        #: Records that are no block yet, and how many they are.
        self._held: list[memoryview] = []
        self._bytes, self._records = 0, 0
        sink.write(
            b"".join(
                (
                    container.MAGIC,
                    container.number(2),
                    _text(b"avro.schema"), _text(header),
                    _text(b"avro.codec"), _text(codec.encode()),
                    container.number(0),
                    self._marker,
                )
            )
        )  # fmt: skip

    def write_table(self, table: pa.Table) -> None:
        """Write the complete blocks of some records, and buffer the rest."""
        for batch in table.to_batches(max_chunksize=_MOST_RECORDS):
            data, ends = encoding.records(batch)
            whole, at, row = memoryview(data), 0, 0  # type: ignore[arg-type]  # arrays are buffers
            while row < len(ends):
                last = int(np.searchsorted(ends, at + BLOCK_BYTES - self._bytes))
                is_full = last < len(ends)
                end, until = (int(ends[last]), last + 1) if is_full else (len(whole), len(ends))
                self._held.append(whole[at:end])
                self._bytes, self._records = self._bytes + end - at, self._records + until - row
                at, row = end, until
                if is_full:
                    self._close_block()

    def _close_block(self) -> None:
        data = self._pack(b"".join(self._held))
        head = container.number(self._records) + container.number(len(data))
        self._sink.write(b"".join((head, data, self._marker)))
        self._held, self._bytes, self._records = [], 0, 0

    def close(self) -> None:
        """Write the buffered records as the last block."""
        if self._records:
            self._close_block()


def _type(kind: pa.DataType) -> Any:
    """The Avro type of a column."""
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "local-timestamp-micros"}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _type(kind.value_type)]}
    for matches, name in _PLAIN:
        if matches(kind):
            return name
    raise AssertionError(f"{kind} has no counterpart")


_PLAIN = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "long"),
    (pa.types.is_floating, "double"),
    (pa.types.is_string, "string"),
)


def _text(data: bytes) -> bytes:
    return container.number(len(data)) + data


def _deflated(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


def _snappy(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
    return packed + zlib.crc32(data).to_bytes(4, "big")


_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": _deflated,
    "snappy": _snappy,
    "zstandard": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def open_writer(
    schema: Schema, options: AvroWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> AvroWriter:
    """The writer of an output."""
    return AvroWriter(schema, options)
