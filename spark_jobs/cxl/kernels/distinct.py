"""`distinct` on batches: finds the first row of each key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values
from spark_jobs.cxl.types import Kind

#: Days, moments and Decimals, which are keys.
_TAGGED_KEY = '{"$d'


def unhashable(keys: list[pa.Array], kinds: list[types.Type]) -> pa.Array | None:
    """The rows whose key may hold a NaN, an array or a map; the interpreter makes the error message."""
    bad: pa.Array | None = None
    for array, static in zip(keys, kinds, strict=True):
        if static.kind is Kind.FLOAT:
            odd = pc.is_nan(array)
        elif static.is_dynamic:
            container = pc.and_not(pc.starts_with(array, pattern="{"), pc.starts_with(array, pattern=_TAGGED_KEY))
            odd = pc.or_(pc.starts_with(array, pattern="["), container)
        elif static.kind is Kind.ARRAY:
            odd = pc.is_valid(array)
        else:
            continue
        odd = pc.fill_null(odd, False)
        bad = odd if bad is None else pc.or_(bad, odd)
    return bad


def first_seen(keys: list[pa.Array], kinds: list[types.Type], count: int, seen: set[Any]) -> pa.Array:
    """The mask of rows that are the first with their key; `seen` has the keys of earlier batches and grows."""
    first = np.zeros(count, dtype=bool)
    if count:
        codes = _codes(keys, count)
        _, places = np.unique(codes, return_index=True)
        places.sort()
        rows = pa.array(places)
        for place, key in zip(places, _python_keys([key.take(rows) for key in keys], kinds, len(places)), strict=True):
            if key not in seen:
                seen.add(key)
                first[place] = True
    return pa.array(first)


def first_among(
    keys: list[pa.Array], kinds: list[types.Type], positions: pa.Array, rivals: list[tuple[int, Any]], seen: set[Any]
) -> tuple[pa.Array, set[int]]:
    """`first_seen` with deferred rows (position and key) between; also the positions of duplicates among these."""
    native = zip(positions.to_pylist(), _python_keys(keys, kinds, len(positions)), range(len(positions)), strict=True)
    first = [False] * len(positions)
    duplicates: set[int] = set()
    for position, key, index in sorted([*native, *((p, k, -1) for p, k in rivals)], key=lambda one: one[0]):
        if key not in seen:
            seen.add(key)
            if index >= 0:
                first[index] = True
        elif index < 0:
            duplicates.add(position)
    return pa.array(first, pa.bool_()), duplicates


def _python_keys(keys: list[pa.Array], kinds: list[types.Type], count: int) -> list[tuple[Any, ...]]:
    if not keys:
        return [()] * count
    columns = [map(values.key_of, values.from_arrow(array, static)) for array, static in zip(keys, kinds, strict=True)]
    return list(zip(*columns, strict=True))


def _codes(keys: list[pa.Array], count: int) -> Any:
    """A number per row, the same for rows with the same values."""
    codes = np.zeros(count, dtype=np.int64)
    for array in keys:
        if pa.types.is_nested(array.type):
            continue  # arrays are no keys: what is left of such a column is null in every row
        encoded = array.dictionary_encode(null_encoding="encode")
        column = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = codes * (len(encoded.dictionary) + 1) + column
        _, codes = np.unique(codes, return_inverse=True)
    return codes
