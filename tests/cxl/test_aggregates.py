"""What aggregate functions make of a group's values, and that the parts of a group may be merged."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.failure import Failure
from tests.cxl.both_engines import same

VALUES: st.SearchStrategy[Any] = (
    st.none()
    | st.integers(-(2**40), 2**40)
    | st.floats(-1e6, 1e6)
    | st.sampled_from(["a", "b", True, 1, 1.0, math.nan])
)


def fold(function: str, *rows: Any) -> tuple[Any, bool]:
    """The result for these records; a value that is no tuple is the only argument."""
    return declare.aggregates()[function].fold(row if isinstance(row, tuple) else (row,) for row in rows)


@pytest.mark.parametrize(
    ("function", "rows", "result"),
    [
        ("sum", [4, None, 7, -1], 10),
        ("sum", [0.1] * 10, 1.0),
        ("sum", [1, 2.5], 3.5),
        ("sum", ["a", None], None),
        ("sum", [1e308, 1e308], math.inf),
        ("sum", [2**62, 2**62, -(2**62)], 2**62),
        ("count", [(), (), ()], 3),
        ("count", [1, None, "x"], 2),
        ("avg", [1, 2], 1.5),
        ("avg", [2**63 - 1, 2**63 - 1], float(2**63 - 1)),
        ("avg", [None], None),
        ("min", [2, 1.5, 3], 1.5),
        ("min", [1, 1.0], 1),
        ("max", [1, 1.0, "z", True], 1),
        ("max", ["b", None, "c"], "c"),
        ("max", [1.0, math.nan, 2.0], math.nan),
        ("min", [math.nan, 1.0, math.nan, 0.5], 0.5),
        ("min", [math.nan, None], math.nan),
        ("collect", [1, None, 2.5], [1, None, 2.5]),
        ("weighted_avg", [(4, 1.0), (None, 2.0), (7, None), (-1, 0.5)], 3.5 / 1.5),
        ("weighted_avg", [(3, 0.0)], None),
        ("weighted_avg", [(0, -2)], 0.0),
        ("weighted_avg", [(1.0, math.nan)], math.nan),
        ("weighted_avg", [(1.0, math.inf), (2.0, 1.0)], math.nan),
        ("weighted_avg", [(math.inf, -1.0)], math.inf),
        ("weighted_avg", [(math.inf, 0.0)], None),
        ("first", [None, 2], None),
        ("last", [1, None], None),
        ("any", [None, 2, 3], 2),
    ],
)
def test_results(function: str, rows: list[Any], result: Any) -> None:
    value, failed = fold(function, *rows)
    assert not failed
    assert same(value, result)


@pytest.mark.parametrize(
    ("function", "empty"), [("count", 0), ("collect", []), ("sum", None), ("min", None), ("any", None)]
)
def test_no_records(function: str, empty: Any) -> None:
    assert fold(function) == (empty, False)


def test_an_int_sum_outside_64_bits_is_an_error() -> None:
    assert fold("sum", 2**63 - 1, 1) == (None, True)
    accumulator = declare.aggregates()["sum"].accumulator()
    accumulator.step(values.MIN_INT)
    accumulator.step(-1)
    with pytest.raises(Failure, match="integer overflow"):
        accumulator.finish()


@example("min", ["b", 0, "a"], 1)
@example("max", [True, "a", False, "b"], 1)
@given(st.sampled_from(sorted(declare.aggregates())), st.lists(VALUES, max_size=12), st.integers(0, 12))
def test_parts_of_a_group_merge_to_the_whole(function: str, items: list[Any], cut: int) -> None:
    aggregate = declare.aggregates()[function]
    rows = [(item,) * max(len(aggregate.parameters), 1) for item in items]
    whole, first, second = (aggregate.accumulator() for _ in range(3))
    for part, of in ((whole, rows), (first, rows[:cut]), (second, rows[cut:])):
        for row in of:
            part.step(*row)
    first.merge(second)
    assert same(first.finish(), whole.finish())


@pytest.mark.parametrize(
    ("function", "argument", "result"),
    [
        ("sum", types.INT, types.INT.or_null()),
        ("sum", types.FLOAT.or_null(), types.FLOAT.or_null()),
        ("sum", types.ANY, types.NUMERIC.or_null()),
        ("avg", types.INT, types.FLOAT.or_null()),
        ("weighted_avg", types.INT, types.FLOAT.or_null()),
        ("count", types.STRING.or_null(), types.INT),
        ("min", types.DATE, types.DATE.or_null()),
        ("any", types.ANY, types.ANY),
        ("collect", types.INT.or_null(), types.array_of(types.INT)),
    ],
)
def test_result_types(function: str, argument: types.Type, result: types.Type) -> None:
    assert declare.aggregates()[function].result((argument,) * 2) == result


def test_window_functions_have_types_for_every_field() -> None:
    windows = declare.windows()
    assert windows["sum"].result((types.INT,)) == types.INT.or_null()
    assert windows["avg"].result((types.INT,)) == types.FLOAT.or_null()
    assert windows["collect"].result((types.DATE.or_null(),)) == types.array_of(types.DATE)
    assert windows["lag"].result((types.STRING,)) == types.STRING.or_null()
    assert all(one.result((types.ANY,)).kind for one in windows.values())
