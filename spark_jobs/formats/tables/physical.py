"""Columns of a table and columns of one of its files: other names, members and widths there, the same values here.

A file has the columns that the table had when it was written, under the names or field ids that the table assigns for
files. A column that it lacks is null, or has the default of the table.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_NAME = b"delta.columnMapping.physicalName"
_MAPPED_NUMBER = b"delta.columnMapping.id"
#: The number of a column in a file, and of a column of an Iceberg table.
NUMBER = b"PARQUET:field_id"
#: The names of a column of an Iceberg table in files without field ids, as a JSON list.
_CALLED = b"clinker.names"
#: The value in files that are older than the column, as a batch of Arrow.
_DEFAULT = b"clinker.default"


def called(known: Mapping[bytes, bytes], names: Sequence[str]) -> dict[bytes, bytes]:
    """The metadata of a column that files without numbers call by some names; none: such files lack it."""
    return {**known, _CALLED: json.dumps([*names]).encode()}


def defaulting(known: Mapping[bytes, bytes], value: pa.Scalar) -> dict[bytes, bytes]:
    """The metadata of a column that has a value where files lack it."""
    batch = pa.RecordBatch.from_arrays([pa.array([value.as_py()], value.type)], [""])
    return {**known, _DEFAULT: batch.serialize().to_pybytes()}


def lacking(column: pa.Field, rows: int) -> pa.Array:
    """The values of a column that a file lacks."""
    default = (column.metadata or {}).get(_DEFAULT)
    if default is None:
        return pa.nulls(rows, column.type)
    batch = pa.ipc.read_record_batch(pa.py_buffer(default), pa.schema([pa.field("", column.type)]))
    repeated: pa.Array = pa.repeat(batch.column(0)[0], rows)
    return repeated


def name_of(column: pa.Field) -> str:
    """Give the name that a column of the table has in its files."""
    named = (column.metadata or {}).get(_NAME)
    return column.name if named is None else named.decode()


def names(
    fields: Collection[pa.Field], own: Collection[pa.Field], before: str = "", before_in_file: str = ""
) -> Iterator[tuple[str, str]]:
    """The dotted names of columns and of their members, each with the one in a file that has it.

    Args:
        fields: the columns of the table.
        own: the columns of the file.
        before: the prefix of each name.
        before_in_file: the prefix of each name in the file.
    """
    for column in fields:
        found = found_in(column, own)
        if found is None:
            continue
        name, in_file = before + column.name, before_in_file + found.name
        yield name, in_file
        if pa.types.is_struct(column.type) and pa.types.is_struct(found.type):
            yield from names(list(column.type), list(found.type), name + ".", in_file + ".")


def found_in(column: pa.Field, fields: Collection[pa.Field]) -> pa.Field | None:
    """The column of a file that has the values of a table's column; None where the file lacks it."""
    known = column.metadata or {}
    number = known.get(NUMBER)
    if number is not None and any(NUMBER in (each.metadata or {}) for each in fields):
        # Another column may have had the name before.
        return _numbered(number, fields)
    if _CALLED in known:
        names_there = json.loads(known[_CALLED])
        return next((each for each in fields if each.name in names_there), None)
    mapped = known.get(_MAPPED_NUMBER)
    if mapped is not None and (found := _numbered(mapped, fields)) is not None:
        return found
    name = name_of(column)
    return next((each for each in fields if each.name == name), None)


def _numbered(number: bytes, fields: Collection[pa.Field]) -> pa.Field | None:
    return next((each for each in fields if (each.metadata or {}).get(NUMBER) == number), None)


def shaped(array: pa.Array, own: pa.Field, column: pa.Field, file: str) -> pa.Array:
    """The values of a file's column as the table has them.

    Args:
        array: the values.
        own: the column of the file.
        column: the column of the table.
        file: the file's name.

    Raises:
        FormatError: they are of a type that does not fit the table's.
    """
    try:
        return _shaped(array, own.type, column.type)
    except (pa.ArrowException, TypeError) as error:
        text = (
            f"column '{column.name}' is {own.type} in the file, which does not fit {column.type} of the table: {error}"
        )
        raise FormatError(text, file) from error


def _shaped(array: Any, own: pa.DataType, kind: pa.DataType) -> pa.Array:
    found: pa.Array = array
    if own == kind and not _has_other_names(kind):
        return found
    if array.offset and pa.types.is_nested(kind):
        array = pa.concat_arrays([array])  # a mask needs arrays that are no slices
    if pa.types.is_struct(kind):
        members = [_member(array, own, column) for column in kind]
        found = pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    elif pa.types.is_map(kind):
        keys = _shaped(array.keys, own.key_type, kind.key_type)
        items = _shaped(array.items, own.item_type, kind.item_type)
        found = pa.MapArray.from_arrays(array.offsets, keys, items, kind, mask=_mask(array))
    elif pa.types.is_list(kind):
        values = _shaped(array.values, own.value_type, kind.value_type)
        found = pa.ListArray.from_arrays(array.offsets, values, kind, mask=_mask(array))
    else:
        found = array.cast(kind)
    return found


def _member(array: Any, own: pa.DataType, column: pa.Field) -> pa.Array:
    """A member of structures; one that is null there is covered by the mask of its structure."""
    inner = found_in(column, list(own))
    if inner is None:
        return lacking(column, len(array))
    return _shaped(array.field(own.get_field_index(inner.name)), inner.type, column.type)


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


def _has_other_names(kind: pa.DataType) -> bool:
    """Whether members inside a type may be called otherwise in files."""
    if pa.types.is_struct(kind):
        return any(
            name_of(each) != each.name or NUMBER in (each.metadata or {}) or _has_other_names(each.type)
            for each in kind
        )
    if pa.types.is_map(kind):
        return _has_other_names(kind.item_type)
    return _has_other_names(kind.value_type) if pa.types.is_list(kind) else False
