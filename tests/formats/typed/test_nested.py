"""Lists, maps and structures become the texts that their values have one by one, whatever is in them."""

from __future__ import annotations

import decimal
import math
import random
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.cxl import types, values
from spark_jobs.formats.typed import natural, nested, records

SECOND = {"s": 1, "ms": 1000, "us": 10**6}
TEXTS = ["", "a", '"', "\\", "é", "\x01", "$x", "𝄞", '{"$date":"x"}']
FLOATS = [0.0, -0.0, 1.5, 1e-5, 1e-4, 0.1, 1e16, 2.5e9, 123456789012.0, 1e22, math.inf, -math.inf, math.nan]
LEAVES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [0, 1, -5, 127],
    pa.int64(): [0, -1, 2**63 - 1],
    pa.uint64(): [0, 7, 2**64 - 1],
    pa.float32(): [0.0, -0.0, 1.5, math.inf, math.nan],
    pa.float64(): FLOATS,
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.bool_(): [True, False],
    pa.date32(): [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)],
    pa.date64(): [date(1, 1, 1), date(2024, 2, 29)],
    **{
        pa.timestamp(unit, zone): [0, 1, -1, 1_700_000_000 * by, 1_700_000_000 * by + by // 2, -62135596801 * by]
        for (unit, by), zone in zip(SECOND.items(), [None, None, "Europe/Berlin"], strict=True)
    },
    pa.timestamp("ns"): [0, 1, 1999, -1, 1_700_000_000_123_456_789],
    pa.decimal128(20, 0): [decimal.Decimal(0), decimal.Decimal(-(10**19))],
    pa.decimal128(38, 20): [decimal.Decimal(0), decimal.Decimal("-1e-20"), decimal.Decimal(12345)],
    pa.null(): [None],
}
KINDS = [*LEAVES, pa.dictionary(pa.int32(), pa.string())]


def a_type(numbers: random.Random, depth: int) -> pa.DataType:
    choice = numbers.randrange(7) if depth else 0
    match choice:
        case 1:
            return pa.list_(a_type(numbers, depth - 1))
        case 2:
            return pa.large_list(a_type(numbers, depth - 1))
        case 3:
            return pa.list_(a_type(numbers, depth - 1), 2)
        case 4:
            return pa.map_(pa.string(), a_type(numbers, depth - 1))
        case 5 | 6:
            names = numbers.sample(["a", "$b", 'c"d', "é"], choice - 4)
            return pa.struct([(name, a_type(numbers, depth - 1)) for name in names])
    return numbers.choice(KINDS)


def a_value(numbers: random.Random, kind: pa.DataType) -> Any:
    if numbers.random() < 0.15:
        return None
    if pa.types.is_dictionary(kind):
        return numbers.choice(TEXTS)
    if pa.types.is_struct(kind):
        return {field.name: a_value(numbers, field.type) for field in kind}
    if pa.types.is_map(kind):
        keys = numbers.choices(["k", "$l", 'm"', "n", "o"], k=3) if numbers.random() < 0.1 else ["$k", ""]
        return [(key, a_value(numbers, kind.item_type)) for key in keys[: numbers.randrange(4)]]
    if pa.types.is_nested(kind):
        count = 2 if pa.types.is_fixed_size_list(kind) else numbers.randrange(4)
        return [a_value(numbers, kind.value_type) for _ in range(count)]
    return numbers.choice(LEAVES[kind])


@pytest.mark.parametrize("seed", range(60))
def test_values_are_those_that_each_is_alone(seed: int) -> None:
    numbers = random.Random(seed)
    for _ in range(4):
        kind = a_type(numbers, 3)
        if not pa.types.is_nested(kind):
            kind = pa.list_(kind)
        given = [a_value(numbers, kind) for _ in range(9)]
        array = pa.array(given, kind)
        for part in (array, array[1:], array[2:5], array[:0]):
            try:
                expected, _ = natural._each(part)
            except pa.ArrowIndexError:  # Arrow cannot decode a dictionary that has no values
                continue
            found, static = natural.natural(part)
            assert (found.to_pylist(), static) == (expected.to_pylist(), types.ANY)


def test_values_are_put_together_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(natural, "_each", None)
    kind = pa.list_(pa.struct([("$p", pa.map_(pa.string(), pa.int8())), ("q", pa.timestamp("us"))]))
    found, _ = natural.natural(pa.array([[{"$p": [("$k", 1), ("l", None)], "q": 1}, None], None, []], kind))
    assert found.to_pylist() == [
        '[{"$$p":{"$$k":1,"l":null},"q":{"$datetime":"1970-01-01T00:00:00.000001"}},null]',
        None,
        "[]",
    ]


def test_texts_from_a_dictionary_that_has_none_are_null() -> None:
    """The member of a null structure has the number of a text that is not there."""
    within = pa.struct([("a", pa.dictionary(pa.int32(), pa.string()))])
    found, _ = natural.natural(pa.array([None, {"a": None}], within))
    assert found.to_pylist() == [None, '{"a":null}']
    found, _ = natural.natural(pa.array([[None], [{"a": None}]], pa.list_(within)))
    assert found.to_pylist() == ["[null]", '[{"a":null}]']


def test_of_entries_with_one_key_the_last_one_counts() -> None:
    array = pa.array([[("k", 1), ("l", 2), ("k", 3)]], pa.map_(pa.string(), pa.int64()))
    assert nested.texts(array, lambda part: pa.repeat("x", len(part))) is None
    assert natural.natural(array)[0].to_pylist() == ['{"k":3,"l":2}']


@pytest.mark.parametrize("static", [types.FLOAT, types.DATETIME], ids=str)
def test_columns_are_tagged_as_their_values_are(static: types.Type) -> None:
    """Moments with and without fractions, floats with and without what is no number."""
    moments = pa.array([0, 1, 500_000, -1, None, 1_700_000_000_000_000, -62135596800_000_000], pa.timestamp("us"))
    for column in (moments, moments[4:6]) if static is types.DATETIME else (pa.array([*FLOATS, None]), pa.array([0.5])):
        expected = [values.encode(value) for value in values.from_arrow(column, static)]
        assert records.tagged(column, static).to_pylist() == expected
