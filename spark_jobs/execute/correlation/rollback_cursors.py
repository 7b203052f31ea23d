"""Rollback cursors: the position that each source has reached in a run with correlation keys, for metrics."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.execute.correlation.state import column
from spark_jobs.nodes.records.identity import ROW_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.execute.inputs import Inputs


def of(inputs: Inputs, records: Mapping[int, int], excluded: str | None, oversized: np.ndarray) -> dict[str, int]:
    """The row, from 1, of each source's last record that has neither failed nor been retracted.

    A source without such a record is left out. No cursor is after the first record of a group that is too large.

    Args:
        inputs: the inputs of the run.
        records: the number of records of each split.
        excluded: the file of records that have failed or were retracted; None if there are none.
        oversized: the numbers of the records of groups that are too large.
    """
    found: dict[str, int] = {}
    first = {int(number): row for number, row in _first_of_each_split(oversized)}
    floors: dict[str, int] = {}
    starts = dict(inputs.starts(records))
    for name, place in inputs.splits:
        before = starts[place.number].in_source
        if place.number in first:
            floors.setdefault(name, before + first[place.number] + 1)
        if (last := _last(place.number, records[place.number], _excluded(place.number, excluded))) >= 0:
            found[name] = before + last + 1
    return {name: min(row, floors.get(name, row)) for name, row in found.items()}


def _first_of_each_split(numbers: np.ndarray) -> list[tuple[int, int]]:
    """The first row of each split among some records, with the split."""
    ordered = np.sort(numbers)
    splits, first = np.unique(ordered >> ROW_BITS, return_index=True)
    rows = ordered[first] & ((1 << ROW_BITS) - 1)
    return list(zip(splits.tolist(), rows.tolist(), strict=True))


def _excluded(split: int, path: str | None) -> np.ndarray:
    """The excluded records of a split, ascending."""
    numbers = np.empty(0, dtype=np.int64) if path is None else column(path, "record").to_numpy()
    low, high = np.searchsorted(numbers, [split << ROW_BITS, (split + 1) << ROW_BITS])
    found: np.ndarray = numbers[low:high]
    return found


def _last(split: int, count: int, excluded: np.ndarray) -> int:
    """The last row of a split that is not excluded; -1 if there is none."""
    # If all rows before an excluded one are excluded too, no row follows that counts.
    read, before = count - len(excluded), split << ROW_BITS
    first = bisect.bisect_left(range(len(excluded)), read, key=lambda place: int(excluded[place]) - before - place)
    return count - 1 - (len(excluded) - first)
