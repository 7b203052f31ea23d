"""Kernels on arrays of dynamic values, as bytes of their tagged texts (`values.encode`).

pyarrow and NumPy are imported on first use.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import values

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

#: Bytes that are looked at together: their matches stay in the cache.
_STRETCH = 1 << 16
_EMPTY = len("[]")


def lengths(arrays: pa.Array) -> pa.Array:
    """The length of each array; null for a null array."""
    import numpy as np
    import pyarrow as pa

    filled = arrays.fill_null("[]")
    offsets = np.frombuffer(filled.buffers()[1], dtype=np.int32)[filled.offset : filled.offset + len(filled) + 1]
    found = np.empty(len(filled), dtype=np.int64)
    start = 0
    while start < len(filled):
        end = int(np.searchsorted(offsets, int(offsets[start]) + _STRETCH, side="right")) - 1
        end = min(max(end, start + 1), len(filled))
        found[start:end] = _lengths(filled.buffers()[2], offsets[start : end + 1])
        start = end
    return pa.array(found, mask=arrays.is_null().to_numpy(zero_copy_only=False) if arrays.null_count else None)


def _lengths(data: Any, offsets: np.ndarray) -> np.ndarray:
    """The lengths of arrays as texts: one more than there are commas outside of nested texts, arrays and maps."""
    import numpy as np

    text = data[int(offsets[0]) : int(offsets[-1])].to_pybytes()
    offsets = offsets - offsets[0]
    if b"\\" in text:
        # A quote after a backslash is part of a text.
        each = (text[start:end].decode() for start, end in itertools.pairwise(offsets.tolist()))
        return np.array([len(values.decode(one)) for one in each], dtype=np.int64)
    found = np.frombuffer(text, dtype=np.uint8)
    places = None
    if b'"' in text:
        places = np.flatnonzero(_marks()[found])
        marks = found[places]
        is_quote = marks == ord('"')
        is_outside = (np.cumsum(is_quote, dtype=np.int32) & 1 == 0) & ~is_quote
        places, found = places[is_outside], marks[is_outside]
    depth = np.cumsum(_steps()[found], dtype=np.int32)
    commas = np.flatnonzero((found == ord(",")) & (depth == 1))
    counts: np.ndarray = np.diff(np.searchsorted(commas if places is None else places[commas], offsets))
    return counts + (np.diff(offsets) > _EMPTY)


@cache
def _marks() -> np.ndarray:
    """A mask of the bytes that have a meaning between values."""
    import numpy as np

    found = np.zeros(256, dtype=bool)
    found[list(b'",[]{}')] = True
    return found


@cache
def _steps() -> np.ndarray:
    """The change of the nesting depth at each byte value."""
    import numpy as np

    found = np.zeros(256, dtype=np.int8)
    found[list(b"[{")] = 1
    found[list(b"]}")] = -1
    return found
