"""Float sums: the same from any cut of the rows, and right to the last digit."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.nodes.aggregate import exact

FLOATS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200)


def total(terms: list[float | None], size: int) -> float | None:
    """The sum by pieces of at most `size` terms, heads and tails merged as partial groups are."""
    heads, tails = [], []
    for start in range(0, len(terms), size):
        pieces = [summed(piece) for piece in exact.cut(pa.array(terms[start : start + size], pa.float64()))]
        head, tail = exact.head_and_tail(*pieces)
        heads.append(head[0].as_py())
        tails.append(tail[0].as_py())
    merged = [summed(piece) for piece in [*exact.cut(pa.array(heads, pa.float64())), pa.array(tails, pa.float64())]]
    value: float | None = exact.head_and_tail(*merged)[0][0].as_py()
    return value


def summed(column: pa.Array) -> pa.Array:
    """A plain double sum, as Arrow's grouping makes it; null without terms."""
    return pa.array([pc.sum(column).as_py()], pa.float64())


@given(st.lists(FLOATS, min_size=1, max_size=60), st.integers(1, 60))
def test_the_sum_is_right_whatever_the_cut(terms: list[float], size: int) -> None:
    expected = math.fsum(terms)
    found = total(terms, size)
    assert found is not None
    # Seventy bits below the largest term something may be rounded.
    assert abs(found - expected) <= max(abs(expected) * 2**-52, max(map(abs, terms)) * 2**-66)


def test_ten_times_a_tenth_is_one() -> None:
    assert [total([0.1] * 10, size) for size in (1, 3, 10)] == [1.0, 1.0, 1.0]


def test_large_and_small_terms_cancel() -> None:
    assert total([1e16, 1.0, -1e16], 3) == 1.0


def test_nulls_are_no_terms() -> None:
    assert total([None, 2.5, None], 2) == 2.5
    assert total([None], 1) is None


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
def test_special_values_go_through(special: float) -> None:
    found = total([1.0, special, 2.0], 2)
    assert found is not None
    assert np.isnan(found) if math.isnan(special) else found == special
