"""Functions that give arrays of the frame: all of them together are as large as the square of a partition.

So rows get them a few at a time, as many as the task has room for. The arrays of a partition need not fit into memory;
that of each row has to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import memory, spill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.windows.call import Call

#: What a value takes while an array is put together, beside its own bytes: where it stands, and where from.
_PLACES_BYTES = 24
#: What a value takes at least.
LEAST_BYTES = float(_PLACES_BYTES + 8)
#: The length of arrays whose values are of any kind is known as text alone.
_LENGTHS = {True: pc.list_value_length, False: pc.binary_length}


def value_bytes(values: pa.Array) -> float:
    """What a value of some takes while an array of them is put together."""
    return _PLACES_BYTES + values.nbytes / max(len(values), 1)


def array_bytes(arrays: pa.Array) -> np.ndarray:
    """What each of some arrays takes."""
    is_list = pa.types.is_list(arrays.type)
    lengths = pc.fill_null(_LENGTHS[is_list](arrays), 0).to_numpy(zero_copy_only=False).astype(np.float64)
    found: np.ndarray = lengths * (value_bytes(arrays.flatten()) if is_list else 1.0)
    return found


def runs(sizes: np.ndarray, share: int) -> Iterator[tuple[int, int]]:
    """Rows whose arrays are worked on at once: where each run begins, and how many rows it has.

    Args:
        sizes: what the arrays of each row take.
        share: the memory of the task.
    """
    before = np.concatenate([[0.0], np.cumsum(sizes)])
    most = memory.step_bytes(share)
    start = 0
    while start < len(sizes):
        end = int(np.searchsorted(before, before[start] + most, side="right")) - 1
        end = min(max(end, start + 1), len(sizes))
        yield start, end - start
        start = end


def check(call: Call, size: float, share: int, node: str) -> None:
    """Whether what has to be there at once fits. Raises `Exhausted`."""
    if size > memory.record_bytes(share):
        raise spill.Exhausted(
            "E310",
            f"the arrays of `{call.text}` need {int(size)} bytes at once, memory.limit leaves {share} to each task; "
            "each row has one of all rows before it: raise memory.limit, use fewer threads, group by more fields, or "
            "collect in an aggregate",
            node,
        )
