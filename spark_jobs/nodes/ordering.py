"""Places in the order of records, comparable over all tasks: lane, split or partition, position there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: The column of a record's place; a group's is that of its first record.
AT = "$at"
#: A place is 63 bits: these for the rows of a task, the others for lanes times tasks, which are numbered without gaps.
ROW_BITS = 34


def place(lane: int, number: int, numbers: range) -> int:
    """The place of a task's rows in the order of records: by lane, then by split or home partition.

    Args:
        lane: the position of the lane in record order.
        number: the split's or partition's.
        numbers: those that the records of any lane come from.
    """
    return lane * len(numbers) + number - numbers.start


def places(task: int, first: int, count: int) -> pa.Array:
    """The places of records of a task, by the order in which it has them: several may be of one row of its input."""
    start = (task << ROW_BITS) + first
    return pa.array(np.arange(start, start + count))


def of(data: pa.RecordBatch) -> pa.Array:
    """The places that records carry; 0 for each where they come in their order."""
    return data.column(AT) if AT in data.schema.names else pa.array(np.zeros(data.num_rows, dtype=np.int64))


def homes(at: pa.Array | pa.ChunkedArray, numbers: range, lanes: int, partitions: int) -> np.ndarray:
    """The home partition of each place: monotonous in record order, all about as wide.

    Args:
        at: places.
        numbers: those of the splits and partitions that the records of a lane come from.
        lanes: how many lanes there are.
        partitions: how many home partitions there are.
    """
    tasks = at.to_numpy() >> ROW_BITS
    chosen: np.ndarray = tasks * partitions // (lanes * len(numbers))
    return chosen
