"""Places: in record order, dense, the same for any batches; homes that share them equally."""

from __future__ import annotations

from collections import Counter
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.nodes.records import batches, order

PATHS = ((0, 0), (0, 1), (1,))


def batch(count: int, merge_path: order.MergePath = (), number: int = 0) -> batches.Batch:
    data = pa.RecordBatch.from_pydict({"row": range(count)})
    return batches.Batch(data, pa.array(range(count)), batches.GroupOrigin(number), merge_path)


def test_places_are_in_order_of_lane_then_number_then_arrival() -> None:
    arrivals = order.Arrivals(PATHS, range(3, 6))
    tasks = {number: order.Stream(arrivals) for number in arrivals.numbers}
    found = {
        (merge_path, number, turn): tasks[number].places(batch(2, merge_path, number)).to_pylist()
        for turn in range(2)
        for merge_path in PATHS
        for number in arrivals.numbers
    }
    in_order = [place for key in sorted(found) for place in found[key]]
    assert in_order == sorted(set(in_order))


def test_ranks_have_no_gaps() -> None:
    """Lanes multiply: hundreds of them and a million splits leave room for the records of a task."""
    arrivals = order.Arrivals(PATHS, range(20, 24))
    assert [arrivals.rank(merge_path, number) for merge_path in PATHS for number in range(20, 24)] == [*range(12)]
    merge_paths, numbers = 256, range(1_000_000)
    assert order.Arrivals(tuple((i,) for i in range(merge_paths)), numbers).rank(
        (merge_paths - 1,), numbers[-1]
    ) < 2 ** (63 - order.ROW_BITS)


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_places_do_not_depend_on_batches(children: list[int], sizes: list[int]) -> None:
    """Those of children neither: they stand where their parents do."""

    def walk(sizes: list[int]) -> tuple[list[int], list[int]]:
        stream = order.Stream(order.Arrivals())
        parents: list[int] = []
        given_: list[int] = []
        rest, turn = children, 0
        while rest:
            here, rest = rest[: sizes[turn % len(sizes)]], rest[sizes[turn % len(sizes)] :]
            turn += 1
            taken = batch(len(here))
            taken.at = stream.places(taken)
            own, of_children = stream.child_places(taken, pa.array(np.repeat(np.arange(len(here)), here)))
            parents += own.to_pylist()
            given_ += of_children.to_pylist()
        return parents, given_

    parents, of_children = walk(sizes)
    assert (parents, of_children) == walk([len(children) or 1])
    assert parents == sorted(set(parents))
    assert of_children == sorted(set(of_children))
    first = [place for place, count in zip(parents, children, strict=True) if count]
    assert set(first) <= set(of_children), "the first child stands where its parent does"


@pytest.mark.parametrize("numbers", [range(4), range(20, 60)])
def test_homes_follow_the_order_of_records_and_have_equal_parts(numbers: range) -> None:
    arrivals = order.Arrivals(((0,), (1,)), numbers)
    at = [
        order.Stream(arrivals).places(batch(3, merge_path, number))
        for merge_path in arrivals.merge_paths
        for number in numbers
    ]
    range_partitions = arrivals.range_partitions(cast("pa.Array", pa.concat_arrays(at)), 4)
    assert (np.diff(range_partitions) >= 0).all()
    assert np.bincount(range_partitions).tolist() == [2 * len(numbers) * 3 // 4] * 4


@pytest.mark.parametrize("sizes", [[[1000]], [[3, 0, 997]], [[0, 500], [499, 1]], [[1], [0]]])
def test_homes_of_few_ranks_have_equal_parts_where_their_sizes_are_known(sizes: list[list[int]]) -> None:
    arrivals = order.Arrivals(tuple((merge_path,) for merge_path in range(len(sizes))), range(5, 5 + len(sizes[0])))
    at, counts = [], Counter[int]()
    for merge_path, row in enumerate(sizes):
        for number, size in enumerate(row, 5):
            stream = order.Stream(arrivals)
            at += [stream.places(batch(each, (merge_path,), number)) for each in (size // 3, size - size // 3)]
            counts.update(stream.counts)
    range_partitions = arrivals.range_partitions(cast("pa.Array", pa.concat_arrays(at)), 8, counts)
    total = sum(map(sum, sizes))
    assert range_partitions.tolist() == [number * 8 // total for number in range(total)]
    assert arrivals.range_partitions(pa.array([], pa.int64()), 8, counts).tolist() == []
