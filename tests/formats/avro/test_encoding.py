"""Records of Avro are encoded by columns as fastavro does one after the other."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import values
from spark_jobs.formats.avro import container, encoding

Columns = list[tuple[pa.DataType, Any, st.SearchStrategy[Any]]]
EDGES = [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 1 << 34, (1 << 35) - 1, values.MIN_INT, values.MAX_INT]
INTS = st.one_of(st.integers(values.MIN_INT, values.MAX_INT), st.sampled_from(EDGES))
TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(["", "é" * 40, "x" * 8200]))
KINDS: Columns = [
    (pa.int64(), "long", INTS),
    (pa.string(), "string", TEXTS),
    (pa.float64(), "double", st.floats()),
    (pa.bool_(), "boolean", st.booleans()),
    (pa.date32(), "int", st.dates()),
    (pa.timestamp("us"), "long", st.datetimes()),
]
LISTS: Columns = [
    (
        pa.list_(kind),
        {"type": "array", "items": ["null", name]},
        st.lists(st.one_of(st.none(), found), max_size=3),
    )
    for kind, name, found in KINDS[:4]
]


def _stored(kind: pa.DataType, found: list[Any]) -> list[Any]:
    """Dates and moments as the numbers that they are stored as."""
    if pa.types.is_date(kind):
        return pa.array(found, kind).cast(pa.int32()).to_pylist()
    return pa.array(found, kind).cast(pa.int64()).to_pylist() if pa.types.is_timestamp(kind) else found


@given(data=st.data(), count=st.integers(0, 6), skipped=st.integers(0, 2))
def test_records_are_those_of_fastavro(data: st.DataObject, count: int, skipped: int) -> None:
    kinds = data.draw(st.lists(st.sampled_from([*KINDS, *LISTS]), min_size=1, max_size=5))
    columns = [data.draw(st.lists(st.one_of(st.none(), found), min_size=count, max_size=count)) for *_, found in kinds]
    names = [f"c{place}" for place in range(len(kinds))]
    arrays = [pa.array(column, kind) for column, (kind, *_) in zip(columns, kinds, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=names).slice(min(skipped, count))
    found, ends = encoding.records(batch)
    fields = [{"name": name, "type": ["null", kind]} for name, (_, kind, _) in zip(names, kinds, strict=True)]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    stored = [_stored(kind, column) for column, (kind, *_) in zip(columns, kinds, strict=True)]
    start = 0
    for record in [*zip(*stored, strict=True)][skipped:]:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, schema, dict(zip(names, record, strict=True)))
        end, ends = int(ends[0]), ends[1:]
        assert found[start:end].tobytes() == sink.getvalue()
        start = end
    assert (len(ends), start) == (0, len(found))


@given(INTS)
def test_numbers_are_those_of_the_container(number: int) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([number])], names=["n"])
    assert encoding.records(batch)[0].tobytes() == b"\x02" + container.number(number)
