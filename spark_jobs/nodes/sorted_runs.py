"""External merge sort: orders any number of rows, with a few blocks in memory at a time.

A run is sorted rows in blocks, with the sort key of each block's first row. These first keys are known without reading
the blocks, so they divide all runs into ranges of about equal size (`splitters`). A range reads the blocks that may
have rows of it (`between`). No key is in two ranges, so sorting each range sorts the whole. `ranges` does this for one
reader and reads each block once.

Callers store their runs in different places: spilled rows (`spill.py`), dead letters in the files of tasks
(`execute/dlq/`), facts of correlation groups in mapped files (`execute/correlation/`), and records of sorted outputs
(`execute/delivery/merging.py`), of which each merging task reads a range.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import packed_sort, sorting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    #: A row's sort key: numbers or bytes, the most significant one first.
    Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a run that are read together.

    Args:
        first: the key of the first row.
        size: its contribution to a range's size: bytes or rows.
        read: reads the rows.
    """

    first: Key
    size: int
    read: Callable[[], pa.Table]


# ---- rows in order -------------------------------------------------------------------------------------------------


def order(table: pa.Table, by: Sequence[str]) -> pa.Array:
    """The positions of a table's rows sorted by some columns of numbers or bytes. The sort is stable."""
    if len(by) == 1:
        column = table.column(by[0]).combine_chunks()
        return (
            pa.array(packed_sort.order(column.to_numpy()))
            if pa.types.is_integer(column.type)
            else pc.sort_indices(column)
        )
    return pa.array(packed_sort.order_of_all([_numbers(table.column(name)) for name in by]))


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Whole numbers, or the ranks of bytes."""
    if pa.types.is_integer(column.type):
        return column.to_numpy()
    return sorting.ranks(column.combine_chunks())


def is_sorted(table: pa.Table, by: Sequence[str]) -> bool:
    """True if rows are sorted by some columns of numbers. This check is much cheaper than sorting."""
    count = table.num_rows
    is_after, is_equal = np.zeros(max(count - 1, 0), dtype=bool), np.ones(max(count - 1, 0), dtype=bool)
    for name in by:
        values = table.column(name).to_numpy()
        is_after |= is_equal & (values[1:] > values[:-1])
        is_equal &= values[1:] == values[:-1]
        if is_after.all():
            return True
    return bool((is_after | is_equal).all())


def key_at(table: pa.Table | pa.RecordBatch, by: Sequence[str], row: int) -> Key:
    """The sort key of a row."""
    return tuple(table.column(name)[row].as_py() for name in by)


def rows_before(table: pa.Table | pa.RecordBatch, by: Sequence[str], bound: Key, side: Literal["left", "right"]) -> int:
    """The number of rows of a sorted table before a bound; with `side` "right", also the rows equal to it."""
    start, end = 0, table.num_rows
    for name, value in zip(by, bound, strict=True):
        column = table.column(name).slice(start, end - start)
        start, end = start + _before(column, value, "left"), start + _before(column, value, "right")
    return start if side == "left" else end


def _before(column: pa.ChunkedArray | pa.Array, value: Any, side: Literal["left", "right"]) -> int:
    """The number of rows before a value in one column."""
    if isinstance(value, int):
        numbers = column.to_numpy()
        return int(np.searchsorted(numbers, numbers.dtype.type(value), side=side))
    search = bisect.bisect_left if side == "left" else bisect.bisect_right
    return search(column, value, key=lambda each: each.as_py())


def blocks(table: pa.Table, by: Sequence[str], rows: int) -> list[Block]:
    """A run that is in memory, in blocks of `rows` rows."""
    starts = range(0, table.num_rows, rows)
    return [Block(key_at(table, by, start), rows, partial(table.slice, start, rows)) for start in starts]


# ---- ranges --------------------------------------------------------------------------------------------------------


def splitters(blocks: Iterable[tuple[Key, int]], most: int) -> list[Key]:
    """Keys that divide runs into ranges.

    Args:
        blocks: first key and size of each block, in any order.
        most: the maximal size of the blocks that begin in a range, unless a single block, or the blocks of one key,
            exceed it. The rest of blocks that began earlier adds at most one block of each run.
    """
    found: list[Key] = []
    size = 0
    for key, more in sorted(blocks, key=itemgetter(0)):
        if size and size + more > most:
            found.append(key)
            size = 0
        size += more
    return found


def between(firsts: Sequence[Key], low: Key | None, high: Key | None) -> range:
    """The blocks of a run that may have rows with `low <= key < high`, by their first keys. None means no bound.

    A key must not begin two blocks of the run.
    """
    first = 0 if low is None else max(bisect.bisect_right(firsts, low) - 1, 0)
    last = len(firsts) if high is None else bisect.bisect_left(firsts, high)
    return range(first, last)


def ranges(runs: Sequence[Sequence[Block]], by: Sequence[str], most: int) -> Iterator[list[pa.Table]]:
    """The rows of runs, range by range; each block is read once.

    Args:
        runs: their blocks in order.
        by: the columns that order them.
        most: see `splitters`.

    Yields:
        The rows of a range as sorted tables, in the order of the runs. Rows that are equal in `by` are in one range.
    """
    waiting = [(block.first, number, block) for number, run in enumerate(runs) for block in run]
    waiting.sort(key=itemgetter(0, 1))
    current: dict[int, list[pa.Table]] = {}
    at = 0
    for bound in [*splitters([(first, block.size) for first, _, block in waiting], most), None]:
        while at < len(waiting) and (bound is None or waiting[at][0] < bound):
            _, number, block = waiting[at]
            current.setdefault(number, []).append(block.read())
            at += 1
        found = []
        for number in sorted(current):
            rest = []
            for table in current.pop(number):
                count = table.num_rows if bound is None else rows_before(table, by, bound, "left")
                if count:
                    found.append(table.slice(0, count))
                if count < table.num_rows:
                    rest.append(table.slice(count))
            if rest:
                current[number] = rest
        if found:
            yield found


def merged(runs: Sequence[Sequence[Block]], by: Sequence[str], most: int) -> Iterator[pa.Table]:
    """The rows of runs in order, a range at a time (see `ranges`). Equal rows are in the order of the runs."""
    for found in ranges(runs, by, most):
        joined = pa.concat_tables(found, promote_options="permissive").combine_chunks()
        del found
        yield joined.take(order(joined, by))
