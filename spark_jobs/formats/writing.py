"""The writer of each format, by its name in pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.formats.csv import write as csv_write
from spark_jobs.formats.json import write as json_write

if TYPE_CHECKING:
    from spark_jobs.cxl.schema import Schema
    from spark_jobs.formats.format import Writer


def open_writer(
    name: str, schema: Schema, options: Any, *, include_header: bool = True, preserve_nulls: bool = False
) -> Writer:
    """The writer for an output's columns, named as they are written.

    Args:
        name: the format.
        schema: the columns.
        options: the format's option dataclass from `options.py`.
        include_header: whether files begin with the names, in formats that have a header.
        preserve_nulls: whether nulls are written, in formats that can leave them out.

    Raises:
        KeyError: the format has no writer.
    """
    match name:
        case "csv":
            return csv_write.CsvWriter(schema, options, include_header=include_header)
        case "json":
            return json_write.JsonWriter(schema, options, preserve_nulls=preserve_nulls)
        case _:
            raise KeyError(name)
