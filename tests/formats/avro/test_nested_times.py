"""Days and moments within records, arrays, maps and unions of Avro files, those outside all years too."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DAY = {"type": "int", "logicalType": "date"}
MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
BEYOND, FIRST = 3_000_000, -719_162
ROW = {"type": "record", "name": "r", "fields": [{"name": "d", "type": ["null", DAY]}, {"name": "n", "type": "int"}]}
FIELDS = [
    {"name": "r", "type": ROW},
    {"name": "again", "type": ["null", "r"]},
    {"name": "days", "type": {"type": "array", "items": ["null", DAY]}},
    {"name": "map", "type": ["null", {"type": "map", "values": MOMENT}]},
    {"name": "rows", "type": {"type": "array", "items": "r"}},
    {"name": "top", "type": ["null", LOCAL]},
]
RECORDS: list[dict[str, Any]] = [
    {"r": {"d": 0, "n": 0}, "again": None, "days": [None, 1], "map": {"a": 5}, "rows": [{"d": -1, "n": 1}], "top": -1},
    {"r": {"d": BEYOND, "n": 1}, "again": {"d": FIRST, "n": 2}, "days": [BEYOND], "map": {"a": 10**15},
     "rows": [{"d": BEYOND, "n": 3}, {"d": None, "n": 4}], "top": 10**18},
    {"r": {"d": None, "n": 5}, "again": {"d": BEYOND, "n": 6}, "days": [], "map": None, "rows": [], "top": None},
]  # fmt: skip
FAR = "10183-09-21"
PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dead.csv }} }}
nodes:
  - {{ type: source, name: s, config: {{ type: avro, path: in.avro, schema: {schema} }} }}
  - type: output
    name: o
    input: s
    config: {{ type: json, path: out/o.json, preserve_nulls: true, options: {{ format: ndjson }} }}
"""


def _bare(schema: Any) -> Any:
    """The schema without logical types: its records are numbers."""
    if isinstance(schema, dict):
        return {key: _bare(each) for key, each in schema.items() if key != "logicalType"}
    return [_bare(each) for each in schema] if isinstance(schema, list) else schema


def _file(fields: list[Any], records: list[dict[str, Any]]) -> bytes:
    """A file with any numbers as days, which the library that writes it would refuse."""
    row = {"type": "record", "name": "row", "fields": fields}
    sink = io.BytesIO()
    fastavro.writer(sink, _bare(row), records, codec="null", sync_marker=b"m" * 16, metadata={})
    data = sink.getvalue()
    true, bare = io.BytesIO(), io.BytesIO()
    fastavro.writer(true, row, [], codec="null", sync_marker=b"m" * 16)
    fastavro.writer(bare, _bare(row), [], codec="null", sync_marker=b"m" * 16)
    assert data.startswith(bare.getvalue())
    return true.getvalue() + data[len(bare.getvalue()) :]


def _run(folder: Path, schema: str, data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[Any], bytes]:
    without_spark.install(monkeypatch)
    pipelines.write(folder, {"pipeline.yaml": PIPELINE.format(schema=schema), "in.avro": data})
    outcome = pipelines.run(folder).result
    found = pipelines.outputs(folder) if (folder / "out").exists() else {}
    lines = [json.loads(line) for line in found.get("o.json", b"").splitlines()]
    return outcome.exit_code, lines, found.get("dead.csv", b"")


def test_undeclared_values_are_dates_moments_and_texts_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found, _ = _run(tmp_path, "{r.n: int}", _file(FIELDS, RECORDS), monkeypatch)
    assert code == 0
    assert found == [
        {"r.n": 0, "r.d": "1970-01-01", "again.d": None, "again.n": None, "days": [None, "1970-01-02"],
         "map": {"a": "1970-01-01T00:00:00.005"}, "rows": [{"d": "1969-12-31", "n": 1}],
         "top": "1969-12-31T23:59:59.999999"},
        {"r.n": 1, "r.d": FAR, "again.d": "0001-01-01", "again.n": 2, "days": [FAR],
         "map": {"a": "33658-09-27T01:46:40.000"}, "rows": [{"d": FAR, "n": 3}, {"d": None, "n": 4}],
         "top": "33658-09-27T01:46:40.000000"},
        {"r.n": 5, "r.d": None, "again.d": FAR, "again.n": 6, "days": [], "map": None, "rows": [], "top": None},
    ]  # fmt: skip


def test_a_day_outside_all_years_fails_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found, dead = _run(tmp_path, "{r.n: int, r.d: date}", _file(FIELDS, RECORDS), monkeypatch)
    assert code == 2
    assert [(each["r.n"], each["r.d"]) for each in found] == [(0, "1970-01-01"), (5, None)]
    assert f",2,r.d,{FAR},type_coercion_failure,".encode() in dead


def test_a_record_that_is_declared_has_dates_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found, _ = _run(tmp_path, "{r: map, again: any}", _file(FIELDS, RECORDS), monkeypatch)
    assert code == 0
    assert [(each["r"], each["again"]) for each in found] == [
        ({"d": "1970-01-01", "n": 0}, None),
        ({"d": FAR, "n": 1}, {"d": "0001-01-01", "n": 2}),
        ({"d": None, "n": 5}, {"d": FAR, "n": 6}),
    ]


def test_days_in_unions_of_several_types_are_still_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [*FIELDS, {"name": "u", "type": [DAY, "string", "r"]}]
    records = [{**RECORDS[0], "u": 7}, {**RECORDS[0], "u": "x"}, {**RECORDS[0], "u": {"d": 1, "n": 2}}]
    code, found, _ = _run(tmp_path, "{r.n: int, r.d: date}", _file(fields, records), monkeypatch)
    assert code == 0
    assert [each["u"] for each in found] == ["1970-01-08", "x", {"d": "1970-01-02", "n": 2}]
    assert [(each["r.d"], each["days"], each["rows"]) for each in found[:1]] == [
        ("1970-01-01", [None, "1970-01-02"], [{"d": "1969-12-31", "n": 1}])
    ]
