"""Writes the Parquet files of an Iceberg table (`formats/tables/write.py`), and the manifest entry of each.

Tasks need no package for that: bounds are bytes of a few known forms.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import decimals
from spark_jobs.formats.tables import physical
from spark_jobs.formats.tables.write import TableWriter, Written, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.formats.iceberg.options import IcebergWrite

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Added:
    """A file that was written, as manifests have it, in values that JSON has; columns are numbers in texts.

    Args:
        path: where it is in the table's folder.
        size: its bytes.
        records: how many rows it has.
        partition: the values of partitions, in their order: days, microseconds, decimals as texts.
        nulls: how many rows have no value in each column.
        lowest: no value of a column is less; bytes in hexadecimal digits.
        highest: no value of a column is greater.
        plain: the columns of floats without a NaN.
    """

    path: str
    size: int
    records: int
    partition: tuple[Any, ...]
    nulls: Mapping[str, int]
    lowest: Mapping[str, str]
    highest: Mapping[str, str]
    plain: tuple[str, ...] = ()


class IcebergWriter(TableWriter[Added]):
    """Writes the files of Iceberg tables."""

    _options: IcebergWrite

    def added(self, written: Written) -> Added:
        """A file with its statistics."""
        numbers = {field.name: _number(field) for field in written.schema}
        kinds = {field.name: field.type for field in written.schema}
        lowest, highest, plain = {}, {}, []
        for name, (low, high) in written.bounds.items():
            if pa.types.is_floating(kinds[name]):
                plain.append(numbers[name])
            if (bound := _bound(low, kinds[name], is_low=True)) is not None:
                lowest[numbers[name]] = bound.hex()
            if (bound := _bound(high, kinds[name], is_low=False)) is not None:
                highest[numbers[name]] = bound.hex()
        return Added(
            written.path,
            written.size,
            written.records,
            tuple(_plain(value) for _, value in written.partition),
            {numbers[name]: count for name, count in written.nulls.items()},
            lowest,
            highest,
            tuple(plain),
        )


def _number(field: pa.Field) -> str:
    return (field.metadata or {})[physical.NUMBER].decode()


def _plain(value: Any) -> Any:
    """The value of a partition as JSON has it."""
    if isinstance(value, datetime):
        return _microseconds(value)
    if isinstance(value, date):
        return _days(value)
    return f"{value:f}" if isinstance(value, Decimal) else value


def _bound(value: Any, kind: pa.DataType, *, is_low: bool) -> bytes | None:
    """A bound in the bytes of the table's specification; None where there is none."""
    if isinstance(value, str):
        short = shortened(value, is_low=is_low)
        return None if short is None else short.encode()
    if isinstance(value, datetime):
        return struct.pack("<q", _microseconds(value))
    if isinstance(value, date):
        return struct.pack("<i", _days(value))
    if isinstance(value, float):
        return struct.pack("<f" if kind.bit_width == 32 else "<d", value)
    if isinstance(value, Decimal):
        units = decimals.units(value)
        return units.to_bytes(units.bit_length() // 8 + 1, "big", signed=True)
    return struct.pack("<i" if kind == pa.int32() else "<q", value)


def _microseconds(value: datetime) -> int:
    known = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (known - _EPOCH) // _MICROSECOND


def _days(value: date) -> int:
    return value.toordinal() - _EPOCH.toordinal()


def open_writer(
    schema: Schema, options: IcebergWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> IcebergWriter:
    """The writer of an output."""
    return IcebergWriter(schema, options)
