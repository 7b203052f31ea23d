"""Sets of numbers as sorted arrays are what NumPy's slower functions make of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.execute.correlation import ascending

NUMBERS = st.lists(st.integers(-3, 3) | st.integers(-(1 << 62), 1 << 62)).map(lambda each: np.array(each, np.int64))


@given(NUMBERS, NUMBERS)
def test_they_are_those_of_numpy(some: np.ndarray, others: np.ndarray) -> None:
    known = ascending.each_once(some)
    assert known.tolist() == np.unique(some).tolist()
    assert ascending.united(known, others).tolist() == np.union1d(some, others).tolist()
    assert ascending.are_among(others, known).tolist() == np.isin(others, some).tolist()
    assert ascending.without(others, known).tolist() == np.setdiff1d(others, some).tolist()
