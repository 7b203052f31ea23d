"""Places in the order of records, comparable over all tasks: lane, split or partition, position there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy as np

#: The column of a record's place; a group's is that of its first record.
AT = "$at"
_NUMBER_BITS, ROW_BITS = 20, 36


def place(lane: int, number: int) -> int:
    """The place of a task's rows in the order of records: by lane, then by split or home partition."""
    return lane << _NUMBER_BITS | number


def first_rows(task: int, rows: pa.Array) -> pa.Array:
    """The places of the records of a task, by their positions in it."""
    return pc.add(rows, pa.scalar(task << ROW_BITS, pa.int64()))


def rows_of(at: pa.Array) -> pa.Array:
    """The positions of places in their tasks."""
    return pc.bit_wise_and(at, pa.scalar((1 << ROW_BITS) - 1, pa.int64()))


def homes(at: pa.Array, numbers: range, lanes: int, partitions: int) -> np.ndarray:
    """The home partition of each place: monotonous in record order, all about as wide.

    Args:
        at: places.
        numbers: those of the splits and partitions that the records of a lane come from.
        lanes: how many lanes there are.
        partitions: how many home partitions there are.
    """
    tasks = at.to_numpy() >> ROW_BITS
    lane, number = tasks >> _NUMBER_BITS, tasks & ((1 << _NUMBER_BITS) - 1)
    chosen: np.ndarray = (lane * len(numbers) + number - numbers.start) * partitions // (lanes * len(numbers))
    return chosen
