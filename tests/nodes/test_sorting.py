"""Sort keys: their order as bytes against the order of the values."""

from __future__ import annotations

from datetime import date, datetime
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.nodes import sorted_runs, sorting

_INTS = st.integers(values.MIN_INT, values.MAX_INT)
_FLOATS = st.floats(allow_nan=False)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(["a", "a\0", "a\0b", "a\x01", "ab", ""])
_DATES, _MOMENTS = st.dates(), st.datetimes()
_OF_A_KIND: list[tuple[types.Type, st.SearchStrategy[Any]]] = [
    (types.INT, _INTS),
    (types.FLOAT, _FLOATS),
    (types.STRING, _TEXTS),
    (types.BOOL, st.booleans()),
    (types.DATE, _DATES),
    (types.DATETIME, _MOMENTS),
]
_ANYTHING = st.booleans() | _INTS | _FLOATS | _TEXTS | _DATES | _MOMENTS | st.lists(_INTS, max_size=2)


def order(static: types.Type, column: list[Any], **how: bool) -> list[Any]:
    key = sorting.field(values.to_arrow(column, static), static, **how)
    places = sorting.fixed(sorting.big_endian(range(len(column))))
    return [column[i] for i in pc.sort_indices(sorting.joined([key, places])).to_pylist()]


def order_by_columns(static: types.Type, column: list[Any], **how: bool) -> list[Any]:
    found = sorting.columns(values.to_arrow(column, static), static, **how)
    assert len(found) == sorting.width(static)
    assert not any(each.null_count for each in found)
    table = pa.table({str(i): each for i, each in enumerate(found)})
    return [column[i] for i in sorted_runs.order(table, table.schema.names).to_pylist()]


def rank(value: Any) -> int:
    kinds = [(bool,), (int, float), (str,), (datetime,), (date,), (list, dict)]
    found = next(i for i, kind in enumerate(kinds) if isinstance(value, kind))
    return {3: 4, 4: 3}.get(found, found)


def compared(a: Any, b: Any) -> int:
    if rank(a) != rank(b):
        return -1 if rank(a) < rank(b) else 1
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return 0 if isinstance(a, list | dict) else (a > b) - (a < b)


def expected(column: list[Any], descending: bool, nulls_first: bool) -> list[Any]:
    nulls = [value for value in column if value is None]
    sign = -1 if descending else 1  # not `reverse`: equal values keep their order
    others = sorted((v for v in column if v is not None), key=cmp_to_key(lambda a, b: sign * compared(a, b)))
    return nulls + others if nulls_first else others + nulls


@pytest.mark.parametrize(
    ("static", "items"), _OF_A_KIND, ids=lambda each: str(each) if type(each) is types.Type else ""
)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_values_of_a_kind(
    static: types.Type, items: st.SearchStrategy[Any], descending: bool, nulls_first: bool
) -> None:
    @given(st.lists(items | st.none(), max_size=8))
    def check(column: list[Any]) -> None:
        found = order(static.or_null(), column, descending=descending, nulls_first=nulls_first)
        assert repr(found) == repr(expected(column, descending, nulls_first))
        found = order_by_columns(static.or_null(), column, descending=descending, nulls_first=nulls_first)
        assert repr(found) == repr(expected(column, descending, nulls_first))

    check()


@given(st.lists(_ANYTHING | st.none(), max_size=8), st.booleans(), st.booleans())
@example([2**62 + 1, float(2**62), 2**62, -(2**63), 2**63 - 1, 2.5, 2], False, False)
@example([[1], "a", [0], 1, True, date(2024, 1, 1), datetime(2023, 1, 1)], True, False)
def test_values_that_carry_their_kind(column: list[Any], descending: bool, nulls_first: bool) -> None:
    found = order(types.ANY, column, descending=descending, nulls_first=nulls_first)
    assert repr(found) == repr(expected(column, descending, nulls_first))


def test_the_first_field_counts_most_and_texts_end() -> None:
    """Without an end mark `a` and `b` would be one text with `ab` and nothing."""
    first = sorting.field(pa.array(["ab", "a", "a"]), types.STRING)
    second = sorting.field(pa.array(["", "b", "a"]), types.STRING)
    assert pc.sort_indices(sorting.joined([first, second])).to_pylist() == [2, 1, 0]


def test_nan_comes_after_all_numbers_and_zeros_are_alike() -> None:
    column = [float("nan"), float("inf"), 0.0, -0.0, float("-inf")]
    assert repr(order(types.FLOAT, column)) == "[-inf, 0.0, -0.0, inf, nan]"


def test_slices_have_keys_of_their_own() -> None:
    column = pa.array([3, None, 1, 2])
    for static in (types.INT, types.STRING):
        typed = pc.cast(column, values.arrow_type(static))
        whole = sorting.field(typed, static.or_null(), descending=True)
        part = sorting.field(typed.slice(1, 2), static.or_null(), descending=True)
        assert part.to_pylist() == whole.to_pylist()[1:3]
