"""The external merge sort: all rows come back in order, a key in one range, with few blocks in memory."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.nodes import sorted_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

BY = ("text", "number")
SIZED = st.lists(
    st.tuples(st.integers(0, 20).map(lambda key: (key,)), st.integers(1, 5)),
    max_size=40,
    unique_by=lambda block: block[0],
)
KEYS = st.tuples(st.binary(max_size=1), st.integers(-3, 3))
RUNS = st.lists(st.lists(KEYS, max_size=30), max_size=6)


def _table(run: int, keys: Sequence[tuple[bytes, int]]) -> pa.Table:
    """Rows in order, each with the number of its run and its place there."""
    rows = [(*key, run, place) for place, key in enumerate(sorted(keys))]
    names = {"text": pa.binary(), "number": pa.int64(), "run": pa.int64(), "place": pa.int64()}
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * 4, schema=pa.schema(names))


def _rows(table: pa.Table) -> list[tuple[bytes, int, int, int]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@given(RUNS, st.integers(1, 9), st.integers(1, 20))
def test_rows_come_in_order_and_equal_ones_by_their_runs(
    parts: list[list[tuple[bytes, int]]], block_rows: int, most: int
) -> None:
    tables = [_table(run, keys) for run, keys in enumerate(parts)]
    runs = [sorted_runs.blocks(table, BY, block_rows) for table in tables]
    found = [row for table in sorted_runs.merged(runs, BY, most) for row in _rows(table)]
    assert found == sorted(row for table in tables for row in _rows(table))


@given(RUNS, st.integers(1, 9), st.integers(1, 20))
def test_a_key_is_in_one_range(parts: list[list[tuple[bytes, int]]], block_rows: int, most: int) -> None:
    runs = [sorted_runs.blocks(_table(run, keys), BY, block_rows) for run, keys in enumerate(parts)]
    ranges = [{row[:2] for table in tables for row in _rows(table)} for tables in sorted_runs.ranges(runs, BY, most)]
    assert all(ranges), "no range is empty"
    assert all(max(one) < min(following) for one, following in itertools.pairwise(ranges))


def test_blocks_are_read_when_their_range_comes_and_once() -> None:
    read: list[int] = []

    def block(number: int) -> sorted_runs.Block:
        table = pa.table({"number": [number, number + 5]})

        def rows() -> pa.Table:
            read.append(number)
            return table

        return sorted_runs.Block((number,), 1, rows)

    runs = [[block(number) for number in range(start, 100, 10)] for start in (0, 3, 6)]
    ahead = []
    for tables in sorted_runs.ranges(runs, ("number",), most=1):
        last = max(table.column("number")[-1].as_py() for table in tables)
        ahead.append(sum(number > last for number in read))
    assert read == sorted(number for start in (0, 3, 6) for number in range(start, 100, 10))
    assert max(ahead) == 0


@given(SIZED, st.integers(1, 12))
def test_ranges_begin_with_no_more_than_they_may(blocks: list[tuple[tuple[int], int]], most: int) -> None:
    bounds = [None, *sorted_runs.splitters(blocks, most), None]
    for low, high in itertools.pairwise(bounds):
        sizes = [size for key, size in blocks if (low is None or key >= low) and (high is None or key < high)]
        assert sum(sizes) <= most or len(sizes) == 1


def test_blocks_of_a_range_are_those_that_may_have_its_rows() -> None:
    firsts = [(10,), (20,), (30,)]
    assert [*sorted_runs.between(firsts, None, None)] == [0, 1, 2]
    assert [*sorted_runs.between(firsts, (25,), (30,))] == [1]
    assert [*sorted_runs.between(firsts, (20,), (31,))] == [1, 2]
    assert [*sorted_runs.between(firsts, None, (10,))] == []
    assert [*sorted_runs.between(firsts, (5,), (11,))] == [0]
