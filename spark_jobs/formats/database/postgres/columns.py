"""Columns of PostgreSQL: the types that fit, the columns of staging tables, and casts to the table's types."""

from __future__ import annotations

import ctypes
import decimal
import re
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.database.targets import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.formats.database.targets import TargetColumn

#: The types that a column of records goes into; texts go into all, and the database reads them.
_TAKEN_BY = {
    "bool": ("bool",),
    "int": ("int2", "int4", "int8", "numeric", "float4", "float8"),
    "float": ("float4", "float8", "numeric"),
    "decimal": ("numeric",),
    "date": ("date", "timestamp", "timestamptz"),
    "moment": ("timestamp", "timestamptz"),
}


def takes(column: TargetColumn, found: pa.DataType) -> bool:
    """Whether records with a column of some type fit."""
    kind = kind_of(found)
    if kind == "text":
        return True
    if kind == "list":
        inner = kind_of(found.value_type)
        return column.kind.startswith("_") and (inner == "text" or column.kind[1:] in _TAKEN_BY.get(inner, ()))
    return column.kind in _TAKEN_BY[kind]


_INTS = ("int2", "int4", "int8")
#: More digits than numbers of the database have.
_DIGITS = decimal.Context(prec=300_000, rounding=decimal.ROUND_HALF_UP)
_PRECISION = re.compile(r"\([0-9]+\)")


def comparable(column: TargetColumn, array: pa.Array) -> pa.Array | None:
    """Texts that are the same only where the column's values are; None where the database has to convert them.

    Args:
        column: the column.
        array: values that it takes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = kind_of(array.type)
    if column.kind == "numeric":
        return pa.array([None if each is None else _numeric(each, column) for each in array.to_pylist()], pa.string())
    if column.kind in ("float4", "float8") and kind != "text":
        is_short = column.kind == "float4"
        return pa.array(
            [None if each is None else _float(each, is_short=is_short) for each in array.to_pylist()], pa.string()
        )
    if column.kind in _INTS:
        return pa.array([None if each is None else str(int(each)) for each in array.to_pylist()], pa.string())
    if kind == "text":
        if column.kind in ("text", "name", "bytea"):
            return array
        if column.kind == "varchar":
            return array if column.length is None else pc.utf8_slice_codeunits(array, 0, column.length)
        if column.kind == "bpchar":
            return pc.utf8_rtrim(array, " ")
        return None
    if kind == "bool" or not _PRECISION.search(column.type):
        return array.cast(pa.string())
    return None


def _numeric(value: Any, column: TargetColumn) -> str:
    """A number as the column keeps it, without zeros at the end."""
    number = decimal.Decimal(str(value).strip())
    if not number.is_finite():
        return str(number).lower()
    with decimal.localcontext(_DIGITS):
        if column.scale is not None:
            number = number.quantize(decimal.Decimal(1).scaleb(-column.scale))
        return str(number.normalize() + 0) if number else "0"


def _float(value: Any, *, is_short: bool) -> str:
    number = ctypes.c_float(value).value if is_short else float(value)
    return repr(number + 0.0)


#: The types of staging columns, by the types of records.
STAGED = {"bool": "bool", "int": "int8", "float": "float8", "date": "date", "moment": "timestamp", "text": "text",
          "decimal": "text"}  # fmt: skip


def sent(array: pa.Array) -> pa.Array:
    """Values as the driver is given them: Decimals are the texts of all their digits, which the database reads."""
    import pyarrow as pa

    return array.cast(pa.string()) if kind_of(array.type) == "decimal" else array


def staged(found: pa.DataType) -> str:
    """The type of a column of a staging table."""
    kind = kind_of(found)
    return f"{STAGED[kind_of(found.value_type)]}[]" if kind == "list" else STAGED[kind]


def converted(name: str, column: TargetColumn, found: pa.DataType) -> str:
    """A staged column as the table has it, for statements. Nothing is cut or rounded to make it fit."""
    kind = kind_of(found)
    if column.kind == "bytea":
        return f"convert_to({name}, 'UTF8')"
    if kind == "float" and column.kind == "numeric":
        return f"{name}::text::{column.type}"  # all digits that the number has, and no others
    if column.kind == "bpchar":
        return f"{name}::bpchar"  # compared without blanks at the end, and not cut either
    if kind == "text" and column.kind in ("text", "varchar"):
        return name  # a cast would cut it
    if kind == "text" and column.kind in ("_varchar", "_bpchar", "_varbit"):
        return f"{name}::{column.kind[1:]}[]"  # a cast with a length would cut the elements
    if kind == "text" and column.kind == "_bit":
        return f"{name}::varbit[]"
    return f"{name}::{column.type}"
