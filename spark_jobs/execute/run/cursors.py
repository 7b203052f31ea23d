"""Rollback cursors: how far each source has come in a run with correlation keys, as metrics report it."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.execute.tasks.facts import ROW_BITS, stored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.execute.run.inputs import Inputs


def cursors(inputs: Inputs, records: Mapping[int, int], dead: str | None, oversized: np.ndarray) -> dict[str, int]:
    """The place in its source, from 1, of each source's last record that has not failed and was not taken back.

    A source that has none is not named. No cursor is behind the first record of a group that is too large.

    Args:
        inputs: what was read.
        records: how many records each split has.
        dead: the file of records that have failed or were taken back; None: there are none.
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
        if (last := _last(place.number, records[place.number], _dead_records(place.number, dead))) >= 0:
            found[name] = before + last + 1
    return {name: min(row, floors.get(name, row)) for name, row in found.items()}


def _first_of_each_split(numbers: np.ndarray) -> list[tuple[int, int]]:
    """The split of each of some records, and the first of their rows in it."""
    ordered = np.sort(numbers)
    splits, first = np.unique(ordered >> ROW_BITS, return_index=True)
    rows = ordered[first] & ((1 << ROW_BITS) - 1)
    return list(zip(splits.tolist(), rows.tolist(), strict=True))


def _dead_records(split: int, dead: str | None) -> np.ndarray:
    """The records of a split that are dead, ascending."""
    numbers = np.empty(0, dtype=np.int64) if dead is None else stored(dead, "record").to_numpy()
    low, high = np.searchsorted(numbers, [split << ROW_BITS, (split + 1) << ROW_BITS])
    found: np.ndarray = numbers[low:high]
    return found


def _last(split: int, count: int, dead: np.ndarray) -> int:
    """The last of a split's rows that is not dead; -1: there is none."""
    # Of a dead record with as many before it that are not dead as there are at all, none behind it is read either.
    alive, before = count - len(dead), split << ROW_BITS
    first = bisect.bisect_left(range(len(dead)), alive, key=lambda place: int(dead[place]) - before - place)
    return count - 1 - (len(dead) - first)
