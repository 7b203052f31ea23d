"""Sorting positions by whole numbers, beside numpy's stable sort."""

from __future__ import annotations

import numpy as np
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
