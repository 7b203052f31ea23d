"""Structures of Parquet and records of Avro: a column for each member, or for all where that is declared."""

from __future__ import annotations

import io
import json
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

RECORDS: list[dict[str, Any]] = [
    {"id": 1, "st": {"a": 1, "b": {"c": "x", "d": date(2024, 1, 2)}}, "ts": datetime(1969, 12, 31, 23, 59, 59)},
    {"id": 2, "st": None, "ts": None},
    {"id": 3, "st": {"a": None, "b": None}, "ts": datetime(2024, 7, 1)},
]
INNER = {"c": "x", "d": "2024-01-02"}
WHOLE = {"a": 1, "b": INNER}
EMPTY = {"a": None, "b": None}
PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - {{ type: source, name: rows, config: {{ type: {kind}, path: in.x, on_unmapped: drop, schema: {schema} }} }}
  - {{ type: output, name: o, input: rows, config: {{ type: json, path: out/o.json, options: {{ format: ndjson }} }} }}
"""


def text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _parquet() -> bytes:
    inner = pa.struct([("c", pa.string()), ("d", pa.date32())])
    outer = pa.struct([("a", pa.int64()), ("b", inner)])
    schema = pa.schema([("id", pa.int64()), ("st", outer), ("ts", pa.timestamp("us"))])
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(RECORDS, schema=schema), sink, row_group_size=2)
    return sink.getvalue()


def _avro() -> bytes:
    day = {"type": "int", "logicalType": "date"}
    inner = {"type": "record", "name": "inner", "fields": [{"name": "c", "type": "string"}, {"name": "d", "type": day}]}
    members = [{"name": "a", "type": ["null", "long"]}, {"name": "b", "type": ["null", inner]}]
    outer = {"type": "record", "name": "outer", "fields": members}
    moment = {"type": "long", "logicalType": "local-timestamp-micros"}
    fields = [
        {"name": "id", "type": "long"},
        {"name": "st", "type": ["null", outer]},
        {"name": "ts", "type": ["null", moment]},
    ]
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "row", "fields": fields}, RECORDS, sync_interval=1)
    return sink.getvalue()


@pytest.mark.parametrize("split_bytes", [1 << 30, 50])
@pytest.mark.parametrize(("kind", "data"), [("parquet", _parquet()), ("avro", _avro())], ids=["parquet", "avro"])
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("{id: int, st: map}", [{"id": 1, "st": WHOLE}, {"id": 2}, {"id": 3, "st": EMPTY}]),
        ("{st: any, ts: date}", [{"st": WHOLE, "ts": "1969-12-31"}, {}, {"st": EMPTY, "ts": "2024-07-01"}]),
        ("{st: string, st.a: int}", [{"st": text(WHOLE), "st.a": 1}, {}, {"st": text(EMPTY)}]),
        ("{st.b: map, st.a: int}", [{"st.b": INNER, "st.a": 1}, {}, {}]),
        (
            "{st: map, st.b: any, st.b.d: date}",
            [{"st": WHOLE, "st.b": INNER, "st.b.d": "2024-01-02"}, {}, {"st": EMPTY}],
        ),
        ("{st.b.c: string, id: int}", [{"st.b.c": "x", "id": 1}, {"id": 2}, {"id": 3}]),
    ],
)
def test_a_structure_is_what_is_declared(
    kind: str,
    data: bytes,
    schema: str,
    expected: list[dict[str, Any]],
    split_bytes: int,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", str(split_bytes))
    pipelines.write(here, {"pipeline.yaml": PIPELINE.format(kind=kind, schema=schema), "in.x": data})
    assert pipelines.run(here).result.error is None
    lines = pipelines.outputs(here)["o.json"].splitlines()
    assert [json.loads(line) for line in lines] == expected
