"""Writes the Parquet files of a Delta table (`formats/tables/write.py`), and the log entry of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.formats.tables.write import TableWriter, Written, shortened, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.formats.delta.options import DeltaWrite


@dataclass(frozen=True)
class Added:
    """A file that was written, as the log has it.

    Args:
        path: where it is in the table's folder.
        size: its bytes.
        partition: the values of the columns that are not in it, as texts.
        stats: how many records it has, and the lowest and highest values of columns.
        nulls: the columns that have nulls.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]
    stats: str
    nulls: tuple[str, ...] = ()


class DeltaWriter(TableWriter[Added]):
    """Writes the files of Delta tables."""

    _options: DeltaWrite

    def converted(self, column: Column, array: pa.Array, failures: list[RowFailure]) -> pa.Array:
        """A column as the files have it; an empty text is no value of a partition: it would be read as null."""
        found = super().converted(column, array, failures)
        if column.name in self._options.partition_by and pa.types.is_string(found.type):
            for row in pc.indices_nonzero(pc.fill_null(pc.equal(found, ""), False)).to_pylist():
                detail = f"column '{column.name}': an empty text is no value of a partition; make it null, or a text"
                failures.append(RowFailure(row, Failure(detail, value="", field=column.name)))
        return found

    def added(self, written: Written) -> Added:
        """A file with its statistics."""
        stats = {
            "numRecords": written.records,
            "minValues": {name: _shown(low, is_low=True) for name, (low, _) in written.bounds.items()},
            "maxValues": {
                name: text for name, (_, high) in written.bounds.items() if (text := _shown(high)) is not None
            },
            "nullCount": written.nulls,
        }
        having = tuple(name for name, count in written.nulls.items() if count)
        partition = {name: text_of(value) for name, value in written.partition}
        return Added(written.path, written.size, partition, values.json_text(stats), having)


def _shown(value: Any, *, is_low: bool = False) -> Any:
    """A bound as JSON has it; None where it cannot be shortened."""
    if isinstance(value, str):
        return shortened(value, is_low=is_low)
    if isinstance(value, datetime):
        # Readers take them for cut to milliseconds, whichever bound it is.
        zone = "" if value.tzinfo is None else "Z"
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone
    if isinstance(value, date):
        return value.isoformat()
    assert not isinstance(value, float) or math.isfinite(value)
    return value


def open_writer(
    schema: Schema, options: DeltaWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> DeltaWriter:
    """The writer of an output."""
    return DeltaWriter(schema, options)
