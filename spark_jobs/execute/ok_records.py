"""Counts the records that came to an output, each once: joins the bits that tasks report, here or in tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.execute.spark import spread
from spark_jobs.execute.tasks.written_rows import Bits, WrittenRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.scratch import Scratch
    from spark_jobs.tuning import Tuning


def count(spark: SparkSession, bits: Sequence[Bits], room: Scratch, tuning: Tuning) -> int:
    """The records that are in some task's bits.

    Args:
        spark: runs tasks, where there is much to join.
        bits: the bits of each task.
        room: where their files are.
        tuning: how many records the driver counts itself, and how many tasks share more.
    """
    alone, shared = _apart(bits)
    found = sum(each.count for each in alone)
    if not shared:
        return found
    ranges = _ranges(shared, tuning)
    if len(ranges) == 1:
        return found + _joined(room, ranges[0])
    return found + sum(spread.parallel_map(spark, partial(_joined, room), ranges, reraised=(OSError,)))


def _apart(bits: Sequence[Bits]) -> tuple[list[Bits], list[Bits]]:
    """Separate the splits that only one task names, which need not be joined, from the others."""
    alone: list[Bits] = []
    shared: list[Bits] = []
    waiting: list[Bits] = []
    end = -1
    for each in sorted(bits, key=lambda bits: bits.splits):
        if each.splits[0] > end:
            (alone if len(waiting) == 1 else shared).extend(waiting)
            waiting = []
        waiting.append(each)
        end = max(end, each.splits[1])
    (alone if len(waiting) == 1 else shared).extend(waiting)
    return alone, shared


@dataclass(frozen=True)
class _Range:
    """Some splits, and the bits of the tasks that name any of them."""

    splits: tuple[int, int]
    bits: tuple[Bits, ...]


def _ranges(bits: Sequence[Bits], tuning: Tuning) -> list[_Range]:
    """The splits, cut into ranges of about as many; one range where there is little."""
    first, last = min(each.splits[0] for each in bits), max(each.splits[1] for each in bits)
    many = sum(each.count for each in bits) > tuning.driver_ok_records
    size = max(1, -(-(last - first + 1) // tuning.ok_tasks)) if many else last - first + 1
    ranges: list[_Range] = []
    for start in range(first, last + 1, size):
        splits = (start, start + size - 1)
        some = tuple(each for each in bits if each.splits[0] <= splits[1] and each.splits[1] >= splits[0])
        ranges.append(_Range(splits, some))
    return ranges


def _joined(_: Scratch, wanted: _Range) -> int:
    """The records of some splits."""
    found = WrittenRows()
    for each in wanted.bits:
        found.join(each, wanted.splits)
    return found.count
