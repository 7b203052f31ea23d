"""Tables in the order of their keys, larger than memory: sorted in runs, and merged by ranges of the keys.

A run is a sorted table with distinct keys. Splitters are sampled from the runs, so that ranges have about the same
number of rows, whatever the keys are. The rows between two splitters are sorted in memory.
"""

from __future__ import annotations

import os
import uuid
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute import part_file, scratch
from spark_jobs.execute.correlation import ascending, stored
from spark_jobs.nodes import sorted_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    #: Sorts rows by their keys, and keeps one row of each key.
    Reduce = Callable[[pa.Table], pa.Table]


def once(
    folder: str,
    schema: pa.Schema,
    parts: Iterable[pa.Table],
    keys: Sequence[str],
    then: Sequence[str] = (),
    before: pa.Table | None = None,
) -> pa.Table:
    """Sort rows by their keys, and keep the first row of each key.

    Args:
        folder: for files, if there are many rows.
        schema: the schema of all parts.
        parts: the rows.
        keys: columns of numbers.
        then: the columns that decide which row of a key is first. Among equal rows it is the earlier one.
        before: more rows, which are sorted, have distinct keys and precede all others.
    """
    reduce = partial(first_of_each, keys=keys, then=then)
    found = runs(folder, parts, reduce)
    return united(folder, schema, [*([] if before is None else [before]), *found], keys, then)


def united(
    folder: str, schema: pa.Schema, tables: Sequence[pa.Table], keys: Sequence[str], then: Sequence[str] = ()
) -> pa.Table:
    """Merge sorted tables, and keep the first row of each key."""
    some = [table for table in tables if table.num_rows]
    if len(some) < 2:
        return some[0].combine_chunks() if some else schema.empty_table()
    return stored.store_table(folder, schema, merged(some, keys, partial(first_of_each, keys=keys, then=then)))


def merged(tables: Sequence[pa.Table], keys: Sequence[str], reduce: Reduce) -> Iterator[pa.Table]:
    """Merge sorted tables, range by range."""
    if len(tables) == 1:
        yield tables[0]
        return
    for parts in ranges(tables, keys):
        yield reduce(pa.concat_tables(parts))


def first_of_each(table: pa.Table, keys: Sequence[str], then: Sequence[str] = ()) -> pa.Table:
    """Sort rows by their keys, and keep the first row of each key."""
    if table.num_columns == 1:
        return pa.table([ascending.each_once(table.column(0).to_numpy())], schema=table.schema)
    values = [table.column(name).to_numpy() for name in keys]
    order, is_first = _order(values)
    if then and not is_first.all():
        order = np.lexsort([table.column(name).to_numpy() for name in (*reversed(then), *reversed(keys))])
    chosen = order if is_first.all() else order[is_first]
    return table.combine_chunks().take(pa.array(chosen))


def _order(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The permutation that sorts rows by some numbers, and a mask of sorted rows that differ from the one before."""
    order: np.ndarray = np.argsort(values[0], kind="stable") if len(values) == 1 else np.lexsort(values[::-1])
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = False
    for each in values:
        is_first[1:] |= each[order[1:]] != each[order[:-1]]
    return order, is_first


def runs(folder: str, parts: Iterable[pa.Table], reduce: Reduce) -> list[pa.Table]:
    """Rows as sorted runs. Several runs are stored in a mapped file."""
    found = _Runs(folder, reduce)
    for part in parts:
        found.add(part)
    return found.all()


class _Runs:
    """Writes runs to a file."""

    def __init__(self, folder: str, reduce: Reduce) -> None:
        self._path = os.path.join(folder, f"runs-{uuid.uuid4().hex}.arrow")
        self._reduce = reduce
        self._held: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._file: part_file.PartFile | None = None

    def add(self, part: pa.Table) -> None:
        if not part.num_rows:
            return
        self._held.append(part)
        self._rows, self._bytes = self._rows + part.num_rows, self._bytes + part.nbytes
        if stored.are_many(self._rows, self._bytes):
            run = self._reduce(pa.concat_tables(self._held))
            self._held, self._rows, self._bytes = [run], run.num_rows, run.nbytes
            if stored.are_many(2 * self._rows, 2 * self._bytes):  # with few distinct keys, more rows fit
                self._write(run)

    def _write(self, run: pa.Table) -> None:
        if self._file is None:
            schema = run.schema
            self._file = part_file.PartFile(lambda path: scratch.ArrowFile(path, schema), self._path)
        self._file.write_batch(run.combine_chunks().to_batches()[0])
        self._held, self._rows, self._bytes = [], 0, 0

    def all(self) -> list[pa.Table]:
        rest = [self._reduce(pa.concat_tables(self._held))] if self._held else []
        if self._file is None:
            return rest
        self._file.close()
        opened = part_file.mapped(self._path)
        os.unlink(self._path)
        written = [pa.Table.from_batches([opened.get_batch(at)]) for at in range(opened.num_record_batches)]
        return [*written, *rest]


def ranges(tables: Sequence[pa.Table], keys: Sequence[str]) -> Iterator[list[pa.Table]]:
    """The rows of sorted tables, in ranges of keys that fit into memory. Equal keys are in one range."""
    rows, size = sum(table.num_rows for table in tables), sum(table.nbytes for table in tables)
    if not stored.are_many(rows, size):
        if rows:
            yield [table for table in tables if table.num_rows]
        return
    # Half of the memory is for blocks that begin in a range. The rest of blocks from earlier ranges fits the other
    # half.
    most = stored.rows_at_once(rows, size) // 2
    step = max(1, most // len(tables))
    yield from sorted_runs.ranges([sorted_runs.blocks(table, keys, step) for table in tables], keys, most)


def rows_of(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of wanted numbers in an ascending array with duplicates, and the index of each one's number."""
    first, last = (np.searchsorted(values, wanted, side) for side in ("left", "right"))
    counts = last - first
    of = np.repeat(np.arange(len(wanted)), counts)
    within = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    return first[of] + within, of


def more_often_than(values: np.ndarray, count: int) -> np.ndarray:
    """The distinct numbers that an ascending array contains more than `count` times."""
    found: np.ndarray = ascending.each_once(values[count:][values[count:] == values[: max(len(values) - count, 0)]])
    return found
