"""Writes files of columnar formats: parts are Arrow batches, which are converted to a file after they have been joined.

A task writes its part of such an output as messages of Arrow's stream format, one for each batch. Like the bytes of
records in other formats, they can be concatenated; the whole is converted at the end. For sorted and split outputs
each record is encoded separately (`record_bytes.py`). Row groups are cut by numbers of rows and bytes of values alone,
so the file does not depend on the tasks that wrote its parts.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, format
from spark_jobs.formats.typed import counterparts, record_sizes
from spark_jobs.formats.typed.record_bytes import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.cxl.types import Type

#: A group of rows has no more rows, and is closed with the row that makes its values as large.
GROUP_ROWS = 122_880
GROUP_BYTES = 32 << 20
#: The end of Arrow's streams.
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
#: Ints beyond have no float each.
_EXACT = 1 << 53


class TypedWriter(ABC):
    """Records as messages of Arrow, and files made of them; see `format.ColumnWriter`."""

    separator = b""

    def __init__(self, schema: Schema, options: Any) -> None:
        self._columns = schema.columns
        self._options = options
        self._schema = pa.schema([(one.name, self._arrow_type(one.type)) for one in schema.columns])
        self._rows = Rows(self._schema)
        self.start: bytes = self._schema.serialize().to_pybytes()
        self.continued = self.start
        self.end = _STREAM_END

    def _arrow_type(self, static: Type) -> pa.DataType:
        """The Arrow type of a column in messages."""
        return counterparts.of(static)

    @property
    def empty(self) -> bytes:
        """A file without a record."""
        sink = io.BytesIO()
        self.convert(io.BytesIO(self.start + self.end), sink)
        return sink.getvalue()

    @abstractmethod
    def _opened(self, sink: IO[bytes], schema: pa.Schema) -> Any:
        """A writer of tables for a file, with `write_table` and `close`. A table becomes a row group."""

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> format.Encoded:
        """The message of a batch, or the bytes of its records where they move alone."""
        if not self._columns:
            raise format.UnwritableFile("records without any column cannot be written to files of columns")
        arrays: list[pa.Array] = []
        failures: list[RowFailure] = []
        for column, array in zip(self._columns, batch.columns, strict=True):
            arrays.append(self.converted(column, array, failures))
        found = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        failures = _first_of_each_row([*failures, *self._refused(found)])
        if failures:
            bad = {failure.row for failure in failures}
            found = found.take(pa.array([row for row in range(batch.num_rows) if row not in bad], pa.int64()))
        if ends:
            data, found_ends = self._rows.encode(found)
            return format.Encoded(data, found.num_rows, failures, found_ends)
        data = found.serialize().to_pybytes() if found.num_rows else b""
        return format.Encoded(data, found.num_rows, failures)

    def _refused(self, found: pa.RecordBatch) -> Iterator[RowFailure]:
        """The records that the format could hold, and their target does not take."""
        yield from ()

    def convert(self, source: IO[bytes], sink: IO[bytes], *, moved: bool = False) -> None:
        """Write a file of the records in a stream."""
        writer = self._opened(sink, self._schema)
        for group in groups(self.batches(source, moved=moved)):
            writer.write_table(group)
        writer.close()

    def converted(self, column: Column, array: pa.Array, failures: list[RowFailure]) -> pa.Array:
        """A column as the file has it; notes the records that it cannot hold."""
        return converted(column, array, failures)

    def batches(self, source: IO[bytes], *, moved: bool) -> Iterator[pa.RecordBatch]:
        """The records in a stream."""
        if moved:
            yield from self._rows.decode(source)
            return
        with pa.ipc.open_stream(source) as stream:
            yield from stream

    def show(self, source: IO[bytes], *, moved: bool = False) -> bytes:
        """The records in a stream as lines of JSON, for people."""
        rows = [row for batch in self.batches(source, moved=moved) for row in batch.to_pylist()]
        return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()


def groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The records in row groups. The cuts depend on the records alone, not on how batches divide them."""
    held: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        sizes = np.cumsum(record_sizes.of(batch.columns, batch.num_rows))
        at, before = 0, 0
        while at < batch.num_rows:
            full = int(np.searchsorted(sizes, GROUP_BYTES - size + before)) + 1
            end = min(batch.num_rows, full, at + GROUP_ROWS - rows)
            held.append(batch.slice(at, end - at))
            rows, size = rows + end - at, size + int(sizes[end - 1]) - before
            at, before = end, int(sizes[end - 1])
            if rows == GROUP_ROWS or size >= GROUP_BYTES:
                yield pa.Table.from_batches(held).combine_chunks()
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def converted(column: Column, array: pa.Array, failures: list[RowFailure]) -> pa.Array:
    """A column as the file has it; notes the records that it cannot hold."""
    if column.type.kind is Kind.NUMERIC:
        return _numbers(column, cast("pa.StringArray", array), failures)
    if column.type.is_dynamic:
        return cell_text.texts(array, column.type)
    return array.cast(counterparts.of(column.type))


def _numbers(column: Column, array: pa.StringArray, failures: list[RowFailure]) -> pa.Array:
    """Numbers of either kind as floats; an int that has none is no number of the file."""
    is_plain = pc.fill_null(pc.match_substring_regex(array, r"^-?[0-9]{1,15}(\.[0-9]+)?$"), True)
    odd = pc.indices_nonzero(pc.invert(is_plain)).to_pylist()
    found = pc.cast(pc.if_else(is_plain, array, None), pa.float64())
    if not odd:
        return found
    exact: list[float | None] = []
    for row in odd:
        number = values.decode(array[row].as_py())
        if isinstance(number, int) and abs(number) > _EXACT and int(float(number)) != number:
            detail = f"column '{column.name}': {number} is no number that a float can be; make it an Int or a String"
            failures.append(RowFailure(row, Failure(detail, value=str(number), field=column.name)))
            exact.append(None)
        else:
            exact.append(float(number))
    return pc.replace_with_mask(found, pc.invert(is_plain), pa.array(exact, pa.float64()))


def _first_of_each_row(failures: list[RowFailure]) -> list[RowFailure]:
    by_row: dict[int, RowFailure] = {}
    for failure in failures:
        by_row.setdefault(failure.row, failure)
    return [by_row[row] for row in sorted(by_row)]
