"""Batches to Parquet files."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from pyarrow import parquet

from spark_jobs.formats.typed.write import TypedWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.formats.parquet.options import ParquetWrite


class ParquetWriter(TypedWriter):
    """Writes Parquet files."""

    _options: ParquetWrite

    def _opened(self, sink: IO[bytes], schema: pa.Schema) -> Any:
        return parquet.ParquetWriter(sink, schema, compression=str(self._options.compression))


def open_writer(
    schema: Schema, options: ParquetWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> ParquetWriter:
    """The writer of an output."""
    return ParquetWriter(schema, options)
