"""Chains of a combine: what becomes of the driver's columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.nodes.combine.joining import Pairs


@given(st.lists(st.integers(0, 3) | st.just(1), max_size=12), st.integers(0, 3))
def test_columns_of_drivers_are_taken_whatever_part_of_them_has_matches(times: list[int], start: int) -> None:
    """None, one or several matches of each; all with one are the usual case, and stand as they are."""
    column = pa.array([f"row {row}" if row % 3 else None for row in range(start + len(times))]).slice(start)
    pairs = Pairs(np.repeat(np.arange(len(times)), times), {})
    wanted = [value for value, count in zip(column.to_pylist(), times, strict=True) for _ in range(count)]
    assert pairs.of_drivers(column).to_pylist() == wanted
    some = pairs.take(np.arange(0, len(pairs.driver), 2))
    assert some.of_drivers(column).to_pylist() == wanted[::2]


@given(st.lists(st.integers(0, 3) | st.just(1), max_size=12))
def test_the_first_chain_of_each_driver_is_one_of_its_own(times: list[int]) -> None:
    rows = np.arange(sum(times))
    found = Pairs(np.repeat(np.arange(len(times)), times), {"b": rows}).first(is_complete=True)
    assert found.driver.tolist() == [driver for driver, count in enumerate(times) if count]
    assert found.builds["b"].tolist() == [sum(times[:driver]) for driver, count in enumerate(times) if count]


def test_as_many_chains_as_drivers_need_not_be_one_of_each() -> None:
    column = pa.array(["a", "b", "c"])
    assert Pairs(np.array([0, 0, 2]), {}).of_drivers(column).to_pylist() == ["a", "a", "c"]
    assert Pairs(np.array([0, 1]), {}).of_drivers(column).to_pylist() == ["a", "b"]
