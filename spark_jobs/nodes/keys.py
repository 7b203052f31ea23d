"""Key columns that Arrow can compare: values are equal exactly if they are the same key, as 1, 1.0 and 1.00d are."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def is_value(static: types.Type) -> bool:
    """True if the comparable column of a key is the key column itself."""
    return not static.is_dynamic and static.kind not in (types.Kind.ARRAY, types.Kind.FLOAT)


def column(key: pa.Array, static: types.Type) -> tuple[pa.Array, np.ndarray]:
    """The comparable column, and a mask of rows whose value cannot be a key (NaN, arrays, maps).

    -0.0 becomes 0.0. A dynamic value becomes a text, equal for 1 and 1.0 but different for different types.
    """
    if static.is_dynamic:
        return _dynamic(key, _is_key)
    if static.kind is types.Kind.ARRAY:
        return pa.nulls(len(key), pa.string()), key.is_valid().to_numpy(zero_copy_only=False)
    if static.kind is types.Kind.FLOAT:
        bad = pc.fill_null(pc.is_nan(key), False).to_numpy(zero_copy_only=False)
        return pc.add(key, 0.0), bad
    return key, np.zeros(len(key), dtype=bool)


def equal_column(key: pa.Array, static: types.Type) -> pa.Array:
    """The comparable column of an operand of `==`: containers compare deeply; a value that equals nothing is null."""
    found, bad = _dynamic(key, _equals_itself) if static.is_dynamic else column(key, static)
    return pc.if_else(pa.array(bad), pa.scalar(None, found.type), found) if bad.any() else found


def _dynamic(key: pa.Array, is_key: Callable[[Any], bool]) -> tuple[pa.Array, np.ndarray]:
    codes = key.dictionary_encode()
    found = [values.decode(text) for text in codes.dictionary.to_pylist()]
    good = [is_key(value) for value in found]
    texts = [values.encode(_canonical(value)) if fit else None for value, fit in zip(found, good, strict=True)]
    if not texts:
        return pa.nulls(len(key), pa.string()), np.zeros(len(key), dtype=bool)
    chosen = codes.indices.fill_null(0).to_numpy(zero_copy_only=False)
    bad = ~np.array(good)[chosen] & key.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(texts, pa.string()).take(codes.indices), bad


def _is_key(value: Any) -> bool:
    try:
        values.key_of(value)
    except TypeError:
        return False
    return True


def _equals_itself(value: Any) -> bool:
    """False if the value contains NaN."""
    return values.equal(value, value)


def _canonical(value: Any) -> Any:
    """One value for all equal ones: 1 for 1.0 and 1.00d, 0.1 for 0.10d, maps with sorted keys."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case Decimal():
            return values.plainest(value)
        case list():
            return [_canonical(item) for item in value]
        case dict():
            return {name: _canonical(value[name]) for name in sorted(value)}
        case _:
            return value


def name(value: Any) -> str:
    """The name in messages of a value that cannot be a key: `NaN`, `array`, `map`."""
    return values.kind_name(value) if isinstance(value, float) else values.kind_name(value).lower()
