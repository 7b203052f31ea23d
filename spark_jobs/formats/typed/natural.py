"""Columns of Parquet files as columns of ours: the type that each Arrow type becomes without a declaration.

| in the file | here |
|---|---|
| ints of any width | Int; unsigned ones beyond 64 bits with a sign are each a text of digits, which fails under Int |
| floats of any width | Float |
| decimals | Int where they have no fraction digits and fit, else the text of all digits, or a declared Decimal |
| bool, texts, dictionaries of texts, dates | the same |
| timestamps | DateTime, to the microsecond below; those with a zone in UTC |
| dates and timestamps outside the years 1 to 9999 | each a text, which fails under Date and DateTime |
| lists, maps | Array, Map |
| structures | a column for each member, with a dotted name, as in JSON; Map where they are declared themselves |

Bytes are texts if the column is declared as String. There is no type for other binary data, times of day and durations.
The type of a value does not depend on other values: a column with such texts has dynamic values.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimals, types, values
from spark_jobs.cxl.types import Kind, Type
from spark_jobs.formats.typed import nested, records

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

#: The maximal nesting of structures whose members become columns.
MAX_DEPTH = 64
_EPOCH = datetime(1970, 1, 1)
FIRST_DAY, LAST_DAY = ((day - _EPOCH.date()).days for day in (date.min, date.max))
_SECONDS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_SECONDS = 86_400


def leaves(
    fields: Iterable[pa.Field],
    declared: Collection[str] = (),
    prefix: str = "",
    depth: int = 0,
    *,
    inside: bool = False,
) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of a file: dotted names and Arrow types, with the members of a struct in place of the struct.

    A declared struct is a column, too. A member `inside` a declared struct is a column only if it is declared itself.
    """
    for field in fields:
        name = prefix + field.name
        is_declared = name in declared
        if pa.types.is_struct(field.type) and field.type.num_fields and depth < MAX_DEPTH:
            if is_declared:
                yield name, field.type
            yield from leaves(field.type, declared, name + ".", depth + 1, inside=inside or is_declared)
        elif is_declared or not inside:
            yield name, field.type


def arrays(
    columns: Iterable[pa.Array],
    fields: Iterable[pa.Field],
    declared: Collection[str] = (),
    prefix: str = "",
    depth: int = 0,
    *,
    inside: bool = False,
) -> Iterator[pa.Array]:
    """The arrays of the leaves of some columns."""
    for array, field in zip(columns, fields, strict=True):
        name = prefix + field.name
        is_declared = name in declared
        if isinstance(array, pa.StructArray) and field.type.num_fields and depth < MAX_DEPTH:
            if is_declared:
                yield array
            # Not `field`: a member of a null structure is null.
            within = (array.flatten(), field.type, declared, name + ".", depth + 1)
            yield from arrays(*within, inside=inside or is_declared)
        elif is_declared or not inside:
            yield array


def type_of(kind: pa.DataType) -> Type | None:
    """The type of a column of an Arrow type; None if there is none."""
    if pa.types.is_dictionary(kind):
        return type_of(kind.value_type)
    if pa.types.is_decimal(kind):
        return types.ANY
    if pa.types.is_union(kind):
        return None
    if pa.types.is_nested(kind):
        is_map = pa.types.is_map(kind) or pa.types.is_struct(kind)
        return (types.MAP if is_map else types.ARRAY) if _is_known_inside(kind) else None
    for matches, static in _KINDS:
        if matches(kind):
            return static
    return None


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a column has bytes, which are texts where it is declared so."""
    if pa.types.is_dictionary(kind):
        return is_bytes(kind.value_type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


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
    """A file's array as a column of the engine, with its type."""
    if pa.types.is_dictionary(array.type):
        return natural(array.cast(array.type.value_type))
    if is_bytes(array.type):
        return array.cast(pa.binary()), types.STRING
    static = type_of(array.type)
    assert static is not None, f"{array.type} was refused"
    match static.kind:
        case Kind.INT:
            return _ints(array)
        case Kind.FLOAT:
            return array.cast(pa.float64()), static
        case Kind.STRING:
            return array.cast(pa.string()), static
        case Kind.DATE | Kind.DATETIME:
            return _times(array, static)
        case Kind.BOOL:
            return array, static
    if pa.types.is_decimal(array.type):
        return _decimals(array)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.string()), static
    found = nested.texts(array, _texts)
    return _each(array) if found is None else (found, types.ANY)


def _texts(array: pa.Array) -> pa.StringArray:
    """The texts of dynamic values; `null` for null."""
    return pc.fill_null(records.undeclared(*natural(array)), "null")


def _each(array: pa.Array) -> tuple[pa.Array, Type]:
    """Values of any kind, each with the type that it has by itself."""
    found = array.cast(_bare(array.type)).to_pylist()
    return values.to_arrow((_plain(value, array.type) for value in found), types.ANY), types.ANY


def _ints(array: pa.Array) -> tuple[pa.Array, Type]:
    try:
        return array.cast(pa.int64()), types.INT
    except pa.ArrowInvalid:
        return _each(array)


def _decimals(array: pa.Array) -> tuple[pa.Array, Type]:
    """Whole numbers as Ints, others as Decimals of one scale, which are texts where they are undeclared."""
    if array.type.scale <= 0:
        try:
            return array.cast(pa.int64()), types.INT
        except pa.ArrowInvalid:
            return _each(array)
    if array.type.precision > decimals.MAX_DIGITS:
        return array.cast(pa.string()), types.STRING
    static = types.decimal_of(None, array.type.scale)
    return array.cast(values.arrow_type(static)), static


def limits(kind: pa.DataType) -> tuple[int, int] | None:
    """The first and the last day or moment that there is, as numbers of a type; None where it has no others."""
    if pa.types.is_date32(kind):
        return FIRST_DAY, LAST_DAY
    units = 1000 if pa.types.is_date64(kind) else _SECONDS[kind.unit]
    if units == _SECONDS["ns"]:
        return None
    return FIRST_DAY * _DAY_SECONDS * units, (LAST_DAY + 1) * _DAY_SECONDS * units - 1


def _times(array: pa.Array, static: Type) -> tuple[pa.Array, Type]:
    """Dates or moments; of any kind where some are outside the years that there are."""
    bounds = limits(array.type)
    if bounds is not None:
        found = pc.min_max(array.cast(_bare(array.type))).as_py()
        if found["min"] is not None and not bounds[0] <= found["min"] <= found["max"] <= bounds[1]:
            return _each(array)
    return array.cast(pa.date32(), safe=False) if static.kind is Kind.DATE else _moments(array), static


#: The first whole microsecond that nanoseconds of 64 bits can have, with room for rounding.
_FIRST_NANOSECONDS = -(1 << 63) + 1_000_000


def _moments(array: pa.Array) -> pa.Array:
    """Moments in UTC, rounded down to microseconds."""
    # Without its zone first: an hour that a place has twice could not be rounded there.
    array = array.cast(pa.timestamp(array.type.unit))
    if array.type.unit == "ns":
        lowest = pc.min(array.cast(pa.int64())).as_py()
        if lowest is None or lowest >= _FIRST_NANOSECONDS:
            array = pc.floor_temporal(array, unit="microsecond")
        else:
            # Arrow cannot round these; some writers have the least of all in place of nulls.
            whole = array.cast(pa.timestamp("us"), safe=False)
            is_later = pc.greater(whole.cast(array.type), array)
            array = pc.subtract(whole.cast(pa.int64()), is_later.cast(pa.int64()))
    return array.cast(pa.timestamp("us"))


def _bare(kind: pa.DataType) -> pa.DataType:
    """A type with numbers for days and moments, which may be any."""
    if pa.types.is_dictionary(kind):
        return _bare(kind.value_type)
    if pa.types.is_null(kind):
        return pa.int8()  # Arrow miscounts nulls without a type within a part of a list.
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_temporal(kind):
        return pa.int64()
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _bare(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_bare(field.type)) for field in kind])
    return pa.list_(_bare(kind.value_type)) if pa.types.is_nested(kind) else kind


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A value of a bare type with values of ours inside."""
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
        return _int(int(value)) if kind.scale <= 0 else values.decimal_text(value)
    if pa.types.is_temporal(kind):
        return time_of(value, kind)
    return _int(value) if pa.types.is_integer(kind) else value


def _int(value: int) -> int | str:
    return value if values.MIN_INT <= value <= values.MAX_INT else str(value)


def time_of(value: int, kind: pa.DataType) -> date | datetime | str:
    """A date or moment from its number; a text if it is out of range."""
    bounds = limits(kind)
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        unit: Any = "D" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
        return str(np.datetime64(value, unit))
    if pa.types.is_date32(kind):
        return _EPOCH.date() + timedelta(days=value)
    units = 1000 if pa.types.is_date64(kind) else _SECONDS[kind.unit]
    moment = _EPOCH + timedelta(microseconds=value * 1_000_000 // units)
    return moment.date() if pa.types.is_date64(kind) else moment
