"""Partitions of keys: equal keys meet, whatever columns they stand in, and nothing is lost."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.nodes import partition

TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=8)), max_size=40)


@given(TEXTS, st.integers(1, 7))
def test_equal_texts_meet(texts: list[str | None], partitions: int) -> None:
    table = pa.table({"k": pa.array(texts, pa.string()), "row": pa.array(range(len(texts)), pa.int64())})
    parts = dict(partition.split(table, ["k"], partitions))
    rows = [row for part in parts.values() for row in part.column("row").to_pylist()]
    assert sorted(rows) == list(range(len(texts)))
    homes: dict[str | None, int] = {}
    for number, part in parts.items():
        assert 0 <= number < partitions
        assert part.column("row").to_pylist() == sorted(part.column("row").to_pylist())
        for key in part.column("k").to_pylist():
            assert homes.setdefault(key, number) == number


@given(st.lists(st.integers(-3, 70_000) | st.integers(0, 3), max_size=40), st.booleans())
def test_rows_are_cut_by_their_numbers_and_keep_their_order(numbers: list[int], is_sorted: bool) -> None:
    chosen = sorted(numbers) if is_sorted else numbers
    table = pa.table({"row": np.arange(len(chosen))})
    found = [(number, part.column("row").to_pylist()) for number, part in partition.cut(table, np.array(chosen, int))]
    assert found == [(one, [row for row, other in enumerate(chosen) if other == one]) for one in sorted(set(chosen))]


@pytest.mark.parametrize(
    "values",
    [[1, 2, None, -5, 2**62], [1.5, -0.5, None, 1e300], [True, False, None], [datetime.date(2024, 2, 29), None]],
)
def test_a_key_hashes_alike_in_slices_and_chunks(values: list[object]) -> None:
    whole = pa.array(values * 3)
    numbers = partition.numbers([whole], 5)
    assert (partition.numbers([whole.slice(2, 4)], 5) == numbers[2:6]).all()
    assert (numbers[: len(values)] == numbers[len(values) : 2 * len(values)]).all()


def test_keys_spread() -> None:
    """No partition gets much more than its share of many keys, texts or numbers."""
    for keys in (pa.array([f"customer {i}" for i in range(20_000)]), pa.array(np.arange(20_000) * 1024)):
        counts = np.bincount(partition.numbers([keys], 8), minlength=8)
        assert counts.max() < 1.1 * 20_000 / 8
