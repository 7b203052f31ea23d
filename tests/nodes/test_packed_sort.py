"""Sorting positions by whole numbers, beside numpy's stable sort."""

from __future__ import annotations

from typing import Literal
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.nodes import packed_sort
from spark_jobs.nodes.windows import codes

_SMALL = st.integers(-3, 3)
_ANY = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.one_of(_SMALL, _ANY), max_size=50))
def test_positions_of_signed_numbers(numbers: list[int]) -> None:
    given_ = np.array(numbers, dtype=np.int64)
    assert packed_sort.order(given_).tolist() == np.argsort(given_, kind="stable").tolist()


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(2**64 - 4, 2**64 - 1)), max_size=50))
def test_positions_of_unsigned_numbers(numbers: list[int]) -> None:
    given_ = np.array(numbers, dtype=np.uint64)
    assert packed_sort.order(given_).tolist() == np.argsort(given_, kind="stable").tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1 << 40), st.integers(0, 1 << 55)), max_size=40), st.data())
def test_rows_by_several_codes_whose_sizes_share_no_word(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    stand = data.draw(st.permutations(range(len(rows))))
    sizes = (3, (1 << 40) + 1, (1 << 55) + 1)
    parts = [codes.Codes(np.array([row[i] for row in rows], dtype=np.int64), size) for i, size in enumerate(sizes)]
    found = codes.order(parts, np.array(stand, dtype=np.int64))
    assert found.tolist() == sorted(stand, key=lambda row: rows[row])


_COLUMN = st.tuples(
    st.sampled_from([np.int8, np.int64, np.uint64]), st.sampled_from([(0, 0), (0, 1), (-3, 3), (-(2**63), 2**64 - 1)])
)


@given(st.lists(_COLUMN, min_size=1, max_size=4), st.integers(0, 12), st.data())
def test_rows_by_several_columns(kinds: list[tuple[type, tuple[int, int]]], count: int, data: st.DataObject) -> None:
    columns = []
    for kind, (low, high) in kinds:
        bounds = np.iinfo(kind)
        numbers = st.integers(max(low, int(bounds.min)), min(high, int(bounds.max)))
        columns.append(np.array(data.draw(st.lists(numbers, min_size=count, max_size=count)), dtype=kind))
    found = packed_sort.order_of_all(columns)
    assert found.tolist() == sorted(range(count), key=lambda row: [int(column[row]) for column in columns])


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("side", ["left", "right"])
@given(data=st.data())
def test_places_among_ascending_numbers(kind: type, side: Literal["left", "right"], data: st.DataObject) -> None:
    values = st.floats(allow_infinity=True) if kind is np.float64 else st.integers(0, 2**62)
    lists = st.lists(st.one_of(values, st.sampled_from([0, 1, 2, 3])), max_size=20)
    ascending, wanted = np.sort(np.array(data.draw(lists), dtype=kind)), np.array(data.draw(lists), dtype=kind)
    ascending = ascending[~np.isnan(ascending)]
    with mock.patch.object(packed_sort, "_FEW", 0):
        found = packed_sort.search(ascending, wanted, side)
    assert found.tolist() == np.searchsorted(ascending, wanted, side=side).tolist()


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**62))), st.lists(st.integers(0, 2**62 + 9)))
def test_places_among_numbers_from_zero(numbers: list[int], wanted: list[int]) -> None:
    """Dense ones have a table, others are searched."""
    for most in (2**62, 9):
        ascending = np.sort(np.array([number for number in numbers if number <= most], dtype=np.int64))
        asked = np.array([0, 1, most, *wanted, *numbers], dtype=np.int64)
        places = packed_sort.Ascending(ascending).places(asked)
        assert places.tolist() == np.searchsorted(ascending, asked).tolist()


def test_dense_numbers_are_looked_up_in_a_table_that_is_not_larger_than_they_are() -> None:
    with mock.patch.object(packed_sort, "search", None):
        assert packed_sort.Ascending(np.arange(10)).places(np.array([3, 12, 0])).tolist() == [3, 10, 0]
    assert packed_sort.Ascending(np.array([0, 2**60])).places(np.array([3])).tolist() == [1]
