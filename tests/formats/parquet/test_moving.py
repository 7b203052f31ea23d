"""Records as bytes that move alone are the records again, whatever is in them."""

from __future__ import annotations

import io
import math
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.formats.typed import record_bytes

INTS = st.integers(-(2**63), 2**63 - 1)
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("ints", pa.list_(pa.int64())),
        ("floats", pa.list_(pa.float64())),
        ("moments", pa.list_(pa.timestamp("us"))),
        ("days", pa.list_(pa.date32())),
        ("texts", pa.list_(pa.list_(pa.string()))),
        ("n", pa.null()),
        ("last", pa.string()),
    ]
)


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def lists(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return or_null(st.lists(or_null(values), max_size=3))


ROWS = st.fixed_dictionaries(
    {
        "i": or_null(INTS),
        "s": or_null(st.text()),
        "f": or_null(st.floats(allow_nan=False)),
        "b": or_null(st.booleans()),
        "d": or_null(st.dates()),
        "t": or_null(st.datetimes()),
        "ints": lists(INTS),
        "floats": lists(st.floats(allow_nan=False)),
        "moments": lists(st.datetimes()),
        "days": lists(st.dates()),
        "texts": lists(st.lists(st.text(), max_size=2)),
        "n": st.none(),
        "last": or_null(st.text()),
    }
)


@given(st.lists(ROWS, max_size=6), st.integers(1, 300))
def test_records_come_back(rows: list[dict[str, Any]], chunk: int) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    known = record_bytes.Rows(SCHEMA)
    data, ends = known.encode(batch)
    alone = [known.encode(batch.slice(place, 1))[0] for place in range(len(rows))]
    assert data == b"".join(alone)
    assert ends.tolist() == [sum(map(len, alone[: place + 1])) for place in range(len(rows))]
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(record_bytes, "_CHUNK_BYTES", chunk)
        found = [*known.decode(io.BytesIO(data))]
    assert [row for each in found for row in each.to_pylist()] == batch.to_pylist()
    assert all(each.schema == SCHEMA for each in found)


def test_what_is_no_number_is_a_value() -> None:
    schema = pa.schema([("f", pa.float64())])
    batch = pa.RecordBatch.from_arrays([pa.array([math.nan, None, -0.0], pa.float64())], schema=schema)
    known = record_bytes.Rows(schema)
    (found,) = known.decode(io.BytesIO(known.encode(batch)[0]))
    assert found.column(0).is_valid().to_pylist() == [True, False, True]
    assert math.isnan(found.column(0)[0].as_py())
    assert math.copysign(1, found.column(0)[2].as_py()) == -1


def test_records_that_are_cut_off_are_told() -> None:
    batch = pa.RecordBatch.from_pylist([{"d": date(2024, 1, 1), "t": datetime(1, 1, 1), "s": "x" * 50}], schema=SCHEMA)
    known = record_bytes.Rows(SCHEMA)
    data, _ = known.encode(batch)
    for broken in (data[:-1], data[:2], data + b"\0\0\0\0\0"):
        with pytest.raises(OSError, match="end within one"):
            [*known.decode(io.BytesIO(broken))]
