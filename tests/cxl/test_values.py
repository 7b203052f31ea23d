"""Values: their texts, their encodings, when two are the same."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from tests.cxl.both_engines import same

ANY_VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(values.MIN_INT, values.MAX_INT)
    | st.floats()
    | st.text(max_size=6)
    | st.dates()
    | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "$date", "$$date", "$float", 'q"', ""]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(ANY_VALUE)
def test_encoded_values_come_back(value: Any) -> None:
    assert same(values.decode(values.encode(value)), value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float_text_is_plain_and_reads_back(number: float) -> None:
    text = values.float_text(number)
    assert "e" not in text
    assert not text.endswith(".0")
    assert float(text) == number


@pytest.mark.parametrize(
    ("number", "text", "json_text"),
    [
        (21.0, "21", "21.0"),
        (1e21, "1000000000000000000000", "1e+21"),
        (1e16, "10000000000000000", "1e+16"),
        (1e15, "1000000000000000", "1000000000000000.0"),
        (1e-5, "0.00001", "0.00001"),
        (1e-6, "0.000001", "1e-6"),
        (1.5e-7, "0.00000015", "1.5e-7"),
        (-0.0, "-0", "-0.0"),
        (math.nan, "NaN", "null"),
        (-math.inf, "-inf", "null"),
    ],
)
def test_float_texts(number: float, text: str, json_text: str) -> None:
    assert values.text_of(number) == text
    assert values.json_text(number) == json_text


def test_datetime_text_shows_a_fraction_of_three_or_six_digits() -> None:
    moment = datetime(2024, 3, 15, 14, 30)
    assert values.text_of(moment) == "2024-03-15T14:30:00"
    assert values.text_of(moment.replace(microsecond=250_000)) == "2024-03-15T14:30:00.250"
    assert values.text_of(moment.replace(microsecond=125)) == "2024-03-15T14:30:00.000125"


def test_containers_are_compact_json() -> None:
    value = {"k": [1, 2.5, None, date(2024, 2, 29)], "t": 'a "b"\n\x01é/'}
    text = values.text_of(value)
    assert text == '{"k":[1,2.5,null,"2024-02-29"],"t":"a \\"b\\"\\n\\u0001é/"}'
    assert json.loads(text)["t"] == value["t"]


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (0.0, -0.0, True),
        (9007199254740993, 9007199254740992.0, True),
        (True, 1, False),
        ("1", 1, False),
        (math.nan, math.nan, False),
        (date(2024, 1, 1), datetime(2024, 1, 1), False),
        ([1, None], [1.0, None], True),
        ([1, None], [1, 2], False),
        ({"a": 1, "b": {"x": None}}, {"b": {"x": None}, "a": 1.0}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
    ],
)
def test_equality(left: Any, right: Any, equal: bool) -> None:
    assert values.equal(left, right) is equal
    assert values.equal(right, left) is equal


def test_keys_meet_across_number_kinds_only() -> None:
    assert values.key_of(1) == values.key_of(1.0)
    assert hash(values.key_of(0.0)) == hash(values.key_of(-0.0))
    assert (
        len({values.key_of(value) for value in (True, 1, "1", None, "", date(2024, 1, 1), datetime(2024, 1, 1))}) == 7
    )
    for value in (math.nan, [1], {}):
        with pytest.raises(TypeError):
            values.key_of(value)


def test_only_numbers_texts_and_dates_are_ordered() -> None:
    assert values.comparable(1, 2.5)
    assert values.comparable(date(2024, 1, 1), date(2024, 1, 2))
    assert not values.comparable(True, False)
    assert not values.comparable(date(2024, 1, 1), datetime(2024, 1, 1))
    assert not values.comparable([1], [2])


@pytest.mark.parametrize(
    ("static", "arrow"),
    [
        (types.INT.or_null(), pa.int64()),
        (types.DATE, pa.date32()),
        (types.DATETIME, pa.timestamp("us")),
        (types.array_of(types.FLOAT), pa.list_(pa.float64())),
        (types.ARRAY, pa.string()),
        (types.array_of(types.array_of(types.INT)), pa.string()),
        (types.MAP, pa.string()),
        (types.ANY, pa.string()),
        (types.NULL, pa.string()),
    ],
)
def test_arrow_types(static: types.Type, arrow: pa.DataType) -> None:
    assert values.arrow_type(static) == arrow


def test_arrays_of_dynamic_values_hold_tagged_texts() -> None:
    items = [1, 1.0, None, date(2024, 1, 1), {"$date": 1}, [None]]
    array = values.to_arrow(items, types.ANY)
    assert array.to_pylist()[:4] == ["1", "1.0", None, '{"$date":"2024-01-01"}']
    assert values.from_arrow(array, types.ANY) == items
    assert values.to_arrow([1, None], types.FLOAT).to_pylist() == [1.0, None]
