"""Columns of PostgreSQL: which records fit, how their values wait, and how they become those of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.formats.database.accepting import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.formats.database.accepting import TargetColumn

#: The types that a column of records goes into; texts go into all, and the database reads them.
_TAKEN_BY = {
    "bool": ("bool",),
    "int": ("int2", "int4", "int8", "numeric", "float4", "float8"),
    "float": ("float4", "float8", "numeric"),
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


#: What the columns of a staging table are, by what records have.
STAGED = {"bool": "bool", "int": "int8", "float": "float8", "date": "date", "moment": "timestamp", "text": "text"}


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
