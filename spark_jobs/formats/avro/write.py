"""Batches to Avro files: blocks of records, which can be joined in any number.

All files of an output have one marker, which follows from their schema: parts are written by tasks that know nothing of
each other. Records that move, because the output is sorted or split, are blocks of their own.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats import format
from spark_jobs.formats.avro import container
from spark_jobs.formats.avro.options import BlockCompression
from spark_jobs.formats.typed import counterparts
from spark_jobs.formats.typed.write import converted

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl.engine import RowFailure
    from spark_jobs.cxl.schema import Schema
    from spark_jobs.formats.avro.options import AvroWrite

#: About how many bytes of values a block has.
_BLOCK_BYTES = 64 << 10
_NAMES = {
    BlockCompression.DEFLATE: "deflate",
    BlockCompression.SNAPPY: "snappy",
    BlockCompression.ZSTD: "zstandard",
    BlockCompression.NONE: "null",
}


class AvroWriter:
    """Writes Avro files."""

    separator = b""
    end = b""

    def __init__(self, schema: Schema, options: AvroWrite) -> None:
        import fastavro

        self._columns = schema.columns
        self._codec = _NAMES[options.compression]
        self._pack = _PACKERS[self._codec]
        fields = [{"name": one.name, "type": ["null", _type(counterparts.of(one.type))]} for one in schema.columns]
        told = json.dumps({"type": "record", "name": "row", "fields": fields})
        self._marker = hashlib.md5(told.encode(), usedforsecurity=False).digest()
        plain = [{"name": one.name, "type": ["null", _stored(counterparts.of(one.type))]} for one in schema.columns]
        self._schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": plain})
        self.start = b"".join(
            (
                container.MAGIC,
                container.number(2),
                _text(b"avro.schema"), _text(told.encode()),
                _text(b"avro.codec"), _text(self._codec.encode()),
                container.number(0),
                self._marker,
            )
        )  # fmt: skip
        self.continued = self.start
        self.empty = self.start

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> format.Encoded:
        """The blocks of a batch; one for each record where these are to be moved."""
        if not self._columns:
            raise format.Unfit("records without any column cannot be written to Avro files")
        failures: list[RowFailure] = []
        arrays = [
            converted(column, array, failures) for column, array in zip(self._columns, batch.columns, strict=True)
        ]
        by_row: dict[int, RowFailure] = {}
        for failure in failures:
            by_row.setdefault(failure.row, failure)
        found = pa.RecordBatch.from_arrays([_plain(array) for array in arrays], names=[c.name for c in self._columns])
        if by_row:
            found = found.take(pa.array([row for row in range(batch.num_rows) if row not in by_row], pa.int64()))
        count = found.num_rows
        step = 1 if ends else max(1, min(count, count * _BLOCK_BYTES // max(found.nbytes, 1)))
        blocks = [self._block(found.slice(start, step)) for start in range(0, count, step)]
        return format.Encoded(
            b"".join(blocks),
            count,
            [by_row[row] for row in sorted(by_row)],
            np.cumsum([len(block) for block in blocks], dtype=np.int64) if ends else None,
        )

    def _block(self, records: pa.RecordBatch) -> bytes:
        import fastavro

        sink = io.BytesIO()
        # An array of records is their number, the records and a zero.
        fastavro.schemaless_writer(sink, {"type": "array", "items": self._schema}, records.to_pylist())
        count = container.number(records.num_rows)
        data = self._pack(sink.getvalue()[len(count) : -1])
        return b"".join((count, container.number(len(data)), data, self._marker))


def _type(kind: pa.DataType) -> Any:
    """What a column is in the file."""
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "local-timestamp-micros"}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _type(kind.value_type)]}
    return _stored(kind)


def _stored(kind: pa.DataType) -> Any:
    """What its values are stored as."""
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _stored(kind.value_type)]}
    for matches, name in _STORED:
        if matches(kind):
            return name
    raise AssertionError(f"{kind} has no counterpart")


_STORED = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "long"),
    (pa.types.is_floating, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_date, "int"),
    (pa.types.is_timestamp, "long"),
    (pa.types.is_null, "null"),
)


def _plain(array: pa.Array) -> pa.Array:
    """Dates and moments as the numbers that they are stored as."""
    if pa.types.is_date(array.type):
        return array.cast(pa.int32())
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64())
    if pa.types.is_list(array.type):
        return array.cast(pa.list_(_plain(pa.nulls(0, array.type.value_type)).type))
    return array


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
