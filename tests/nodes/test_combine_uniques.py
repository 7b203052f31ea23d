"""Keys have numbers: equal ones the same, all others different ones, null none."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.nodes import packed_sort
from spark_jobs.nodes.combine.index import Uniques

KINDS = {
    types.INT: st.integers(-3, 3) | st.sampled_from([values.MIN_INT, values.MAX_INT]),
    types.STRING: st.sampled_from(["", "a", "b", "é"]),
    types.DATE: st.sampled_from([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    types.DATETIME: st.sampled_from([datetime(1, 1, 1), datetime(1970, 1, 1), datetime(2024, 1, 2, 3, 4, 5, 6)]),
    types.FLOAT: st.sampled_from([0.0, 1.5, -1e300]),
    types.BOOL: st.booleans(),
}


@pytest.mark.parametrize("few", [0, 4096])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_key_has_the_number_of_equal_ones(kind: types.Type, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_sort, "_FEW", few)
    columns = st.lists(st.none() | KINDS[kind], max_size=9)

    @given(columns, columns, st.integers(0, 3))
    def check(build: list[Any], probe: list[Any], start: int) -> None:
        found, codes = Uniques.of(values.to_arrow(build, kind).slice(start))
        build = build[start:]
        assert [code < 0 for code in codes] == [value is None for value in build]
        numbers = {value: code for value, code in zip(build, codes.tolist(), strict=True) if value is not None}
        assert sorted(numbers.values()) == list(range(len(found)))
        assert [numbers.get(value, -1) for value in build] == codes.tolist()
        here = found.find(values.to_arrow(probe, kind))
        assert here.tolist() == [-1 if value is None else numbers.get(value, -1) for value in probe]

    check()


def test_distinct_numbers_are_in_their_order() -> None:
    assert packed_sort.distinct(np.array([3, 1, 3, -2, 1])).tolist() == [-2, 1, 3]
    assert packed_sort.distinct(np.array([], dtype=np.float64)).tolist() == []


def test_nothing_is_found_among_no_keys() -> None:
    found, codes = Uniques.of(pa.array([None, None], pa.int64()))
    assert (len(found), codes.tolist(), found.find(pa.array([1, None])).tolist()) == (0, [-1, -1], [-1, -1])
