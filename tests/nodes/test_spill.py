"""Rows held within a share: nothing is lost, order and keys hold, whatever is spilled and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.nodes import memory, spill
from spark_jobs.nodes.records import order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class _Kept:
    table: pa.Table

    def read(self) -> pa.Table:
        return self.table


@dataclass
class _Room:
    share: int
    spilled: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.memory_pool = memory.MemoryPool(self.share)

    def spill(self, node: str, table: pa.Table) -> _Kept:
        assert table.nbytes <= self.share
        self.spilled.append(table)
        return _Kept(table)


def _rows(places: Sequence[int]) -> pa.Table:
    return pa.table({order.AT: pa.array(places, pa.int64())})


def _keyed(places: Sequence[int], keys: Sequence[int | None]) -> pa.Table:
    """A row per place: its key, and a list of places."""
    lists = pa.array([[place] for place in places], pa.list_(pa.int64()))
    return pa.table({"key": pa.array(keys, pa.int64()), order.AT: lists})


def _found(tables: Iterable[pa.Table]) -> list[tuple[int | None, list[int]]]:
    columns = [(table.column("key").to_pylist(), table.column(order.AT).to_pylist()) for table in tables]
    return [pair for keys, lists in columns for pair in zip(keys, lists, strict=True)]


def _listed(tables: Sequence[pa.Table]) -> pa.Table:
    """A row per key, with its places in order."""
    found: dict[int | None, list[int]] = {}
    for key, places in _found(tables):
        found.setdefault(key, []).extend(places)
    return pa.table({"key": list(found), order.AT: list(found.values())}, tables[0].schema)


@given(st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=60), max_size=60), st.integers(300, 20_000))
def test_places_come_back_in_order(parts: list[list[int]], share: int) -> None:
    room = _Room(share)
    rows = spill.ExternalSorter(room, "n")
    for part in parts:
        rows.add(_rows(part))
    found = [place for table in rows.tables() for place in table.column(order.AT).to_pylist()]
    assert found == sorted(place for part in parts for place in part)


_WIDE = st.sampled_from([-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1])


@given(
    st.lists(st.lists(st.tuples(st.binary(max_size=2), _WIDE), min_size=1, max_size=30), max_size=40),
    st.integers(2_000, 20_000),
)
def test_bytes_and_numbers_order_rows_together(parts: list[list[tuple[bytes, int]]], share: int) -> None:
    rows = spill.ExternalSorter(_Room(share), "n", ("text", "number", order.AT))
    wanted: list[tuple[bytes, int, int]] = []
    for part in parts:
        new = [(text, number, len(wanted) + i) for i, (text, number) in enumerate(part)]
        wanted += new
        texts, numbers, places = zip(*new, strict=True)
        rows.add(pa.table({"text": pa.array(texts, pa.binary()), "number": pa.array(numbers), order.AT: places}))
    found = [row for table in rows.tables() for row in zip(*(each.to_pylist() for each in table.columns), strict=True)]
    assert found == sorted(wanted)


@pytest.mark.slow
def test_many_runs_are_merged_within_the_share() -> None:
    """More runs than are merged at once; no table that comes back is larger than what is held."""
    room = _Room(12_000)
    rows = spill.ExternalSorter(room, "n")
    places = np.random.default_rng(1).permutation(20_000)
    for part in np.array_split(places, 100):
        rows.add(_rows(part))
    tables = list(rows.tables())
    assert len(room.spilled) > 2 * spill.MOST_RUNS
    assert max(table.nbytes for table in tables) <= room.share
    assert pa.concat_tables(tables).column(order.AT).to_pylist() == list(range(20_000))


KEYS = st.lists(st.lists(st.one_of(st.none(), st.integers(0, 40)), min_size=1, max_size=40), max_size=40)


@given(KEYS, st.integers(2_000, 60_000))
@example([[None] * 40] * 3, 2_000)
@example([[None, 1] * 20] * 2, 2_000)
def test_a_key_comes_back_once_with_all_its_rows(parts: list[list[int | None]], share: int) -> None:
    room = _Room(share)
    rows = spill.ExternalMap(room, "n", ["key"], _listed)
    wanted: dict[int | None, list[int]] = {}
    place = first = 0
    for part in parts:
        for key in part:
            wanted.setdefault(key, []).append(place)
            place += 1
    try:
        for part in parts:
            rows.add(_keyed(range(first, first + len(part)), part))
            first += len(part)
        found = _found(rows.tables())
    except spill.ResourcesExhausted:
        # Only for a key whose rows alone are too many.
        each = [_listed([_keyed(places, [key] * len(places))]).nbytes for key, places in wanted.items()]
        assert max(each) > memory.record_bytes(share)
        return
    assert len(found) == len(wanted)
    assert dict(found) == wanted


@pytest.mark.thorough
def test_spilled_keys_are_split_again_where_they_do_not_fit() -> None:
    room = _Room(6_000)
    rows = spill.ExternalMap(room, "n", ["key"], _listed)
    for start in range(0, 5_000, 50):
        rows.add(_keyed(range(start, start + 50), range(start, start + 50)))
    tables = list(rows.tables())
    assert len(tables) > spill.FAN_OUT
    assert sorted(key for key, _ in _found(tables)) == list(range(5_000))


@pytest.mark.parametrize("keys", [["key"], []])
def test_a_key_that_does_not_fit_alone_is_told(keys: list[str]) -> None:
    rows = spill.ExternalMap(_Room(6_000), "totals", keys, _listed)
    with pytest.raises(spill.ResourcesExhausted, match=r"memory\.limit leaves 6000 to each task") as caught:
        _add_one_key(rows)
    assert (caught.value.code, caught.value.node) == ("E310", "totals")


def _add_one_key(rows: spill.ExternalMap) -> None:
    for start in range(0, 2_000, 50):
        rows.add(_keyed(range(start, start + 50), [7] * 50))
