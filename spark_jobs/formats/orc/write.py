"""Batches to ORC files."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import orc

from spark_jobs.formats.orc.options import StripeCompression
from spark_jobs.formats.typed.write import TypedWriter

if TYPE_CHECKING:
    from spark_jobs.cxl.schema import Schema
    from spark_jobs.formats.orc.options import OrcWrite


class OrcWriter(TypedWriter):
    """Writes ORC files."""

    _options: OrcWrite

    def _opened(self, sink: IO[bytes], schema: pa.Schema) -> _File:
        return _File(sink, schema, self._options.compression)


class _File:
    """A file on its way; Arrow learns its columns from the first table, and there may be none."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema, compression: StripeCompression) -> None:
        name = "uncompressed" if compression is StripeCompression.NONE else str(compression)
        self._writer = orc.ORCWriter(pa.PythonFile(sink, mode="w"), compression=name)
        self._schema = schema
        self._has_any = False

    def write_table(self, table: pa.Table) -> None:
        """Write some records."""
        self._writer.write(table)
        self._has_any = True

    def close(self) -> None:
        """Write the footer."""
        if not self._has_any:
            self._writer.write(self._schema.empty_table())
        self._writer.close()


def open_writer(
    schema: Schema, options: OrcWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> OrcWriter:
    """The writer of an output."""
    return OrcWriter(schema, options)
