"""Columns of Parquet files as columns of ours: what each Arrow type is here, before anything is declared.

| in the file | here |
|---|---|
| ints of any width | Int; unsigned ones beyond 64 bits with a sign are texts of digits, which fail under Int |
| floats of any width | Float |
| decimals | Int where they have no fraction digits and fit, else the text of all digits |
| bool, texts, dictionaries of texts, dates | the same |
| timestamps | DateTime, to the microsecond below; those with a zone in UTC |
| lists, maps | Array, Map |
| structures | a column for each member, with a dotted name, as in JSON |

Nothing stands for binary data, times of day and durations.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values
from spark_jobs.cxl.types import Kind, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How deep structures make columns of their own.
MAX_DEPTH = 64


def leaves(fields: Iterator[pa.Field], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of a file: dotted names and Arrow types, those of structures in their place."""
    for field in fields:
        if pa.types.is_struct(field.type) and field.type.num_fields and depth < MAX_DEPTH:
            yield from leaves(iter(field.type), f"{prefix}{field.name}.", depth + 1)
        else:
            yield prefix + field.name, field.type


def arrays(columns: list[pa.Array], fields: list[pa.Field], depth: int = 0) -> Iterator[pa.Array]:
    """The arrays of the leaves of some columns."""
    for array, field in zip(columns, fields, strict=True):
        if isinstance(array, pa.StructArray) and field.type.num_fields and depth < MAX_DEPTH:
            # Not `field`: a member of a null structure is null.
            yield from arrays(array.flatten(), list(field.type), depth + 1)
        else:
            yield array


def type_of(kind: pa.DataType) -> Type | None:
    """What a column of an Arrow type is here; None where nothing stands for it."""
    if pa.types.is_dictionary(kind):
        return type_of(kind.value_type)
    if pa.types.is_decimal(kind):
        return types.ANY
    if pa.types.is_nested(kind):
        is_map = pa.types.is_map(kind) or pa.types.is_struct(kind)
        return (types.MAP if is_map else types.ARRAY) if _is_known_inside(kind) else None
    for matches, static in _KINDS:
        if matches(kind):
            return static
    return None


_KINDS = (
    (pa.types.is_null, types.ANY),
    (pa.types.is_boolean, types.BOOL),
    (pa.types.is_integer, types.INT),
    (pa.types.is_floating, types.FLOAT),
    (pa.types.is_string, types.STRING),
    (pa.types.is_large_string, types.STRING),
    (pa.types.is_date, types.DATE),
    (pa.types.is_timestamp, types.DATETIME),
)


def _is_known_inside(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(type_of(field.type) is not None for field in kind)
    if pa.types.is_map(kind):
        return pa.types.is_string(kind.key_type) and type_of(kind.item_type) is not None
    return type_of(kind.value_type) is not None


def natural(array: pa.Array) -> tuple[pa.Array, Type]:
    """An array of a file as a column of ours, and of which type."""
    if pa.types.is_dictionary(array.type):
        return natural(array.cast(array.type.value_type))
    static = type_of(array.type)
    assert static is not None, f"{array.type} was refused"
    match static.kind:
        case Kind.INT:
            return _ints(array)
        case Kind.FLOAT:
            return array.cast(pa.float64()), static
        case Kind.STRING:
            return array.cast(pa.string()), static
        case Kind.DATE:
            return array.cast(pa.date32()), static
        case Kind.DATETIME:
            return _moments(array), static
        case Kind.BOOL:
            return array, static
    if pa.types.is_decimal(array.type):
        return _decimals(array)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.string()), static
    return values.to_arrow((_plain(value, array.type) for value in array.to_pylist()), types.ANY), types.ANY


def _ints(array: pa.Array) -> tuple[pa.Array, Type]:
    try:
        return array.cast(pa.int64()), types.INT
    except pa.ArrowInvalid:
        return array.cast(pa.string()), types.STRING


def _decimals(array: pa.Array) -> tuple[pa.Array, Type]:
    if array.type.scale <= 0:
        try:
            return array.cast(pa.int64()), types.INT
        except pa.ArrowInvalid:
            pass
    return array.cast(pa.string()), types.STRING


def _moments(array: pa.Array) -> pa.Array:
    """Moments in UTC; what is finer than a microsecond goes, toward the past."""
    if array.type.unit == "ns":
        array = pc.floor_temporal(array, unit="microsecond")
    return array.cast(pa.timestamp("us", array.type.tz)).cast(pa.timestamp("us"))


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A nested value with values of ours inside."""
    if value is None:
        return None
    if pa.types.is_dictionary(kind):
        return _plain(value, kind.value_type)
    if pa.types.is_map(kind):
        return {key: _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_nested(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_decimal(kind):
        return int(value) if kind.scale <= 0 else str(value)
    if pa.types.is_timestamp(kind):
        date, time = value.date(), value.time()
        moment = datetime.combine(date, time, value.tzinfo)
        return moment if kind.tz is None else moment.astimezone(UTC).replace(tzinfo=None)
    return value
