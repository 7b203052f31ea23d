"""Tables as bytes: whatever is packed comes back, small where its numbers are near to one another."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.execute.tasks import block_codec

if TYPE_CHECKING:
    from typing import Any

_WHOLE = st.integers(-(2**63), 2**63 - 1)
_NEAR = st.integers(2**40, 2**40 + 300)
_DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
_MOMENTS = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
_VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), _WHOLE),
    (pa.int64(), _NEAR),
    (pa.int64(), st.just(-7)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.uint32(), st.integers(0, 2**32 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), _DAYS),
    (pa.timestamp("us"), _MOMENTS),
    (pa.string(), st.text(max_size=12)),
    (pa.string(), st.text("ab", min_size=3, max_size=3)),
    (pa.binary(), st.binary(max_size=300)),
    (pa.large_string(), st.text(max_size=5)),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=3)),
    (pa.null(), st.none()),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b"])),
]


@st.composite
def _tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(0, 40))
    columns = {}
    for number, (kind, values) in enumerate(draw(st.lists(st.sampled_from(_VALUES), min_size=1, max_size=6))):
        some = st.none() | values if draw(st.booleans()) else values
        columns[f"c{number}"] = pa.array(draw(st.lists(some, min_size=count, max_size=count)), kind)
    table = pa.table(columns)
    start = draw(st.integers(0, count))
    table = table.slice(start, draw(st.integers(0, count - start)))
    return pa.concat_tables([table, table]) if draw(st.booleans()) else table


@given(_tables(), st.sampled_from(["auto", "on", "off"]))
def test_what_is_packed_comes_back(table: pa.Table, mode: str) -> None:
    found = block_codec.decode(block_codec.encode(table, mode))
    assert found.schema == table.schema
    assert found == table
    found.validate(full=True)


@pytest.mark.parametrize("mode", ["auto", "on", "off"])
def test_long_columns_come_back(mode: str) -> None:
    random = np.random.default_rng(1)
    count = 30_000
    table = pa.table(
        {
            "far": random.integers(-(2**62), 2**62, count),
            "float": random.random(count),
            "not a number": np.full(count, np.nan),
            "zeros": np.where(random.random(count) < 0.5, 0.0, -0.0),
            "same text": pa.array(["always the same"] * count),
            "text": pa.array([str(number) * (number % 5) for number in range(count)]),
            "long": pa.array(["x" * (number % 700) for number in range(count)]),
            "some": pa.array([number if number % 3 else None for number in range(count)]),
        }
    )
    found = block_codec.decode(block_codec.encode(table.slice(5), mode))
    for name in ("float", "not a number", "zeros"):
        mine, other = (each.column(name).to_numpy().view(np.int64) for each in (found, table.slice(5)))
        assert np.array_equal(mine, other)
    names = [name for name in table.column_names if name != "not a number"]
    assert found.select(names) == table.slice(5).select(names)


def test_numbers_take_the_bytes_of_their_distances() -> None:
    count = 10_000
    places = np.random.default_rng(1).permutation(count)

    def size(**columns: Any) -> int:
        return len(block_codec.encode(pa.table(columns)))

    def more(**columns: Any) -> int:
        return size(place=places, **columns) - size(place=places)

    assert size(place=places + (3 << 34)) < 2 * count + 1000
    assert more(constant=np.full(count, 1 << 60)) < 200
    # The same distances are there once, whatever they are from, and in whatever width.
    assert more(row=places + (1 << 50)) < 200
    assert more(other=places[::-1]) > 2 * count
    assert more(code=pa.array([f"{place:05}" for place in places])) < 6 * count


def test_columns_that_begin_and_end_alike_are_told_apart() -> None:
    first, second = np.arange(1000), np.arange(1000)
    second[500], second[501] = 501, 500
    table = pa.table({"first": first, "second": second, "third": first + 5})
    assert block_codec.decode(block_codec.encode(table)) == table


def test_what_was_opened_keeps_nothing_else() -> None:
    texts = pa.array([f"text {number}" for number in range(10_000)])
    data = block_codec.encode(pa.table({"text": texts, "other": [f"{number}" * 9 for number in range(10_000)]}))
    before = pa.total_allocated_bytes()
    kept = block_codec.decode(data).select(["text"])
    assert pa.total_allocated_bytes() - before < 2 * kept.nbytes


@pytest.mark.parametrize("mode", ["auto", "on", "off"])
def test_rows_without_columns_are_counted(mode: str) -> None:
    assert block_codec.decode(block_codec.encode(pa.table({"a": [1, 2, 3]}).select([]), mode)).num_rows == 3
