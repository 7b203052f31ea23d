"""Dynamic columns as texts: whole columns are written as each of their values would be."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.formats import cell_text
from spark_jobs.formats.typed import spelling

scalars = (
    st.none()
    | st.booleans()
    | st.integers(values.MIN_INT, values.MAX_INT)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.dates()
    | st.datetimes()
    | st.datetimes().map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
    | st.sampled_from(['"', "$date", '{"$date":"x"}', '{"$date":"', "{", "$$", "e-05", "\\", "\n", 'a"$b'])
    | st.sampled_from([1e-5, 1e-7, 1e16, 1.5e300, 12345678901.5, -0.0, 0.1])
)
anything = st.lists(
    st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_size=8,
)
texts = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=8)


@given(anything)
@example([{"$": 1}, {"$date": 1}, {"$date": "x"}, {"$$d": date(2024, 1, 2)}, [{"{": "$date"}, date(1, 1, 1)]])
@example(
    [datetime(1, 1, 1), datetime(2024, 1, 2, 3, 4, 5, 120), [datetime(2024, 1, 2, 3, 4, 5, 120_000)], float("inf")]
)
@example([1e-05, "e-05", {"$k": 1e-05}, [float("nan")], "$date", None])
def test_dynamic_values_as_json(found: list[Any]) -> None:
    column = values.to_arrow(found, types.ANY)
    expected = [None if value is None else values.json_text(value) for value in found]
    assert spelling.of_tagged(column).to_pylist() == expected


@given(anything)
@example(["", "a", "\\", '"', "é", 1.5, 1e16, 1e-9, 7, True, None, [1.0], {"a": "x"}])
@example(["", "a", None, "é", "{", "[]", "1.5", "true"])
@example([1, -7, None, True])
@example([None, None])
@example(["a", 1.5, date(2024, 1, 2)])
def test_dynamic_values_as_cells(found: list[Any]) -> None:
    column = values.to_arrow(found, types.ANY)
    expected = [None if value is None else values.text_of(value) for value in found]
    assert cell_text.texts(column, types.ANY).to_pylist() == expected


@given(anything)
@example([{"$date": 1}, date(2024, 1, 2), "{", "[", [], {}, None, [None]])
def test_arrays_and_maps_are_found_by_their_rows(found: list[Any]) -> None:
    column = values.to_arrow(found, types.ANY)
    expected = {row: values.json_text(value) for row, value in enumerate(found) if isinstance(value, list | dict)}
    containers = cell_text.containers(column, types.ANY)
    assert {row: values.json_text(value) for row, value in containers.items()} == expected


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=8), texts)
@example([1e-4, 9.99e-5, 1e10, 1e16, 0.1, -0.0, 123456789.125], ["\x1f", '"\\'])
def test_columns_become_dynamic_as_their_values_would(numbers: list[float | None], found: list[str | None]) -> None:
    for array in (
        pa.array(numbers, pa.float64()),
        pa.array(found, pa.string()),
        pa.array([None if n is None else n > 0 for n in numbers], pa.bool_()),
        pa.array([None if t is None else len(t) - 4 for t in found], pa.int64()),
        pa.array([None if t is None else date.fromordinal(1 + 400_000 * len(t)) for t in found], pa.date32()),
    ):
        assert spelling.tagged(array).to_pylist() == [values.encode(value) for value in array.to_pylist()]
