"""Sorting positions by whole numbers, beside numpy's stable sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.nodes import words
from spark_jobs.nodes.windows import codes

_SMALL = st.integers(-3, 3)
_ANY = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.one_of(_SMALL, _ANY), max_size=50))
def test_positions_of_signed_numbers(numbers: list[int]) -> None:
    given_ = np.array(numbers, dtype=np.int64)
    assert words.order(given_).tolist() == np.argsort(given_, kind="stable").tolist()


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(2**64 - 4, 2**64 - 1)), max_size=50))
def test_positions_of_unsigned_numbers(numbers: list[int]) -> None:
    given_ = np.array(numbers, dtype=np.uint64)
    assert words.order(given_).tolist() == np.argsort(given_, kind="stable").tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1 << 40), st.integers(0, 1 << 55)), max_size=40), st.data())
def test_rows_by_several_codes_whose_sizes_share_no_word(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    stand = data.draw(st.permutations(range(len(rows))))
    sizes = (3, (1 << 40) + 1, (1 << 55) + 1)
    parts = [codes.Codes(np.array([row[i] for row in rows], dtype=np.int64), size) for i, size in enumerate(sizes)]
    found = codes.order(parts, np.array(stand, dtype=np.int64))
    assert found.tolist() == sorted(stand, key=lambda row: rows[row])
