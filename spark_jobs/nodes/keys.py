"""Key columns that Arrow can compare: equal exactly when the values are one key (spec/exec.md 7.2, decision 40)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values

if TYPE_CHECKING:
    from typing import Any


def is_value(static: types.Type) -> bool:
    """Whether the comparable column of a key is the key itself."""
    return not static.is_dynamic and static.kind not in (types.Kind.ARRAY, types.Kind.FLOAT)


def column(key: pa.Array, static: types.Type) -> tuple[pa.Array, np.ndarray]:
    """The comparable column, and a mask of rows whose value cannot be a key (NaN, arrays, maps).

    -0.0 becomes 0.0. A dynamic value becomes a text in which 1 and 1.0 are alike and kinds do not mix.
    """
    if static.is_dynamic:
        return _dynamic(key)
    if static.kind is types.Kind.ARRAY:
        return pa.nulls(len(key), pa.string()), key.is_valid().to_numpy(zero_copy_only=False)
    if static.kind is types.Kind.FLOAT:
        bad = pc.fill_null(pc.is_nan(key), False).to_numpy(zero_copy_only=False)
        return pc.add(key, 0.0), bad
    return key, np.zeros(len(key), dtype=bool)


def _dynamic(key: pa.Array) -> tuple[pa.Array, np.ndarray]:
    codes = key.dictionary_encode()
    texts: list[str | None] = []
    bad: list[bool] = []
    for text in codes.dictionary.to_pylist():
        value = values.decode(text)
        try:
            values.key_of(value)
        except TypeError:
            texts.append(None)
            bad.append(True)
        else:
            texts.append(_canonical(value))
            bad.append(False)
    if not texts:
        return pa.nulls(len(key), pa.string()), np.zeros(len(key), dtype=bool)
    chosen = codes.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(texts, pa.string()).take(codes.indices), np.array(bad)[chosen] & key.is_valid().to_numpy(
        zero_copy_only=False
    )


def _canonical(value: Any) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return values.encode(value)


def name(value: Any) -> str:
    """What a value that is no key is called in messages: `NaN`, `array`, `map`."""
    return values.kind_name(value) if isinstance(value, float) else values.kind_name(value).lower()
