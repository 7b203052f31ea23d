"""Lists, maps and structures of Arrow as the texts of arrays and maps (`values.encode`): their parts are put together.

A column of a file has the parts of all its values one after another, so that they become texts as columns do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Converts parts of nested values to JSON texts; a null becomes `null`.
    Texts = Callable[[pa.Array], pa.StringArray]


def texts(array: pa.Array, texts_of: Texts) -> pa.Array | None:
    """The text of each value, null for null; None if a map has two entries with one key, of which the last one counts.

    Args:
        array: lists, maps or structures.
        texts_of: makes the texts of the elements and members.
    """
    kind = array.type
    if _has_untyped(kind):
        kind = _plain(kind)
        array = array.cast(kind)
    if pa.types.is_struct(kind):
        found = _structures(array, texts_of)
    elif pa.types.is_map(kind):
        entries = _maps(array, texts_of)
        if entries is None:
            return None
        found = entries
    else:
        found = _joined(array, texts_of(array.flatten()), "[]")
    return pc.if_else(array.is_valid(), found, None) if array.null_count else found


def _has_untyped(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return False
    inside = [kind.field(i).type for i in range(kind.num_fields)]
    return pa.types.is_null(kind) or any(map(_has_untyped, inside))


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type with the same values, without dictionaries and nulls that have no type: Arrow miscounts them in parts."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_null(kind):
        return pa.int8()
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return pa.list_(_plain(kind.value_type)) if pa.types.is_nested(kind) else kind


def _structures(array: pa.Array, texts_of: Texts) -> pa.StringArray:
    assert isinstance(array, pa.StructArray)
    if not array.type.num_fields:
        return pa.repeat("{}", len(array))
    parts: list[pa.Array | str] = []
    before = "{"
    for field, column in zip(array.type, array.flatten(), strict=True):
        parts += [f"{before}{values.json_text(_key(field.name))}:", texts_of(column)]
        before = ","
    return pc.binary_join_element_wise(*parts, "}", "")


def _maps(array: pa.Array, texts_of: Texts) -> pa.StringArray | None:
    kind = array.type
    entries = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    keys, items = entries.flatten().flatten()
    counts = _counts(entries)
    rows = np.repeat(np.arange(len(counts)), counts)
    pairs = pa.table({"row": rows, "key": keys})
    if pairs.group_by(pairs.schema.names, use_threads=False).aggregate([]).num_rows < len(rows):
        return None
    marked = pc.starts_with(keys, "$")
    if pc.any(marked, min_count=0).as_py():
        keys = pc.if_else(marked, pc.binary_join_element_wise("$", keys, ""), keys)
    found = pc.binary_join_element_wise(texts_of(keys), texts_of(items), ":")
    return _joined(entries, found, "{}")


def _key(name: str) -> str:
    return f"${name}" if name.startswith("$") else name


def _joined(lists: pa.Array, parts: pa.StringArray, brackets: str) -> pa.StringArray:
    """The parts of each list, with commas between them."""
    offsets = np.concatenate([[0], np.cumsum(_counts(lists))])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), parts), ",")
    return pc.binary_join_element_wise(brackets[0], joined, brackets[1], "")


def _counts(lists: pa.Array) -> np.ndarray:
    """The number of elements of each list; 0 for null."""
    counts: np.ndarray = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return counts.astype(np.int64)
