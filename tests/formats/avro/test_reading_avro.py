"""Avro files are read as fastavro wrote them, in any splits; whatever is broken about one is told."""

from __future__ import annotations

import io
import json
import random
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from spark_jobs.cxl import types
from spark_jobs.formats.avro import container
from spark_jobs.scan.files import FormatError
from tests.formats.avro import files

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 60


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
@pytest.mark.parametrize("split", [16, 700, 5000, 1 << 40])
def test_records_are_those_that_were_written(tmp_path: Path, codec: str, split: int) -> None:
    path = tmp_path / "rows.avro"
    path.write_bytes(files.make([files.record(number) for number in range(ROWS)], codec=codec))
    wanted = [files.expected(number) for number in range(ROWS)]
    for exact in (False, True):
        found = files.read(path, split, block=1000, exact=exact)
        assert found.rows == wanted
        assert (found.counted, found.consistent) == (ROWS, True)
    assert found.splits > 1 or split > 700


def test_columns_are_read_alone(tmp_path: Path) -> None:
    """`sub` refers to what `kind` has defined."""
    path = tmp_path / "rows.avro"
    path.write_bytes(files.make([files.record(number) for number in range(ROWS)]))
    for name, kind in files.COLUMNS:
        found = files.read(path, columns=[(name, kind)])
        assert found.rows == [{name: files.expected(number)[name]} for number in range(ROWS)]


def test_members_that_nobody_reads_are_not_looked_into(tmp_path: Path) -> None:
    """A text that is none breaks whoever reads it; names that others refer to stay."""
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"], "default": "A"}
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "text", "type": "string", "default": "none"},
        {"name": "either", "type": ["null", "long", "string"]},
        {"name": "texts", "type": {"type": "array", "items": {"type": "map", "values": ["string", "null"]}}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "kind", "type": ["null", kind]},
        {"name": "again", "type": {"type": "array", "items": "Kind"}},
    ]
    row = {"id": 7, "text": "text", "either": "text", "texts": [{"k": "text", "n": None}], "at": 1, "kind": "B"}
    schema = {"type": "record", "name": "R", "fields": fields}
    data = files.make([{**row, "again": ["B", "A"]}], schema)
    path = tmp_path / "rows.avro"
    path.write_bytes(data.replace(b"\x08text", b"\x08te\xfft"))
    found = files.read(path, columns=[("id", types.INT), ("again", types.ARRAY)])
    assert found.rows == [{"id": 7, "again": '["B","A"]'}]
    for name, kind_read in (("text", types.STRING), ("either", types.ANY), ("texts", types.ARRAY)):
        with pytest.raises(FormatError, match="has no records of its schema"):
            files.read(path, columns=[(name, kind_read)])


@pytest.mark.parametrize("is_union", [False, True])
@pytest.mark.parametrize(
    ("kind", "logical", "number", "read_as", "value", "odd", "text"),
    [
        ("int", "date", 19000, types.DATE, date(2022, 1, 8), 6585000, "19999-02-13"),
        (
            "long",
            "timestamp-millis",
            1,
            types.DATETIME,
            datetime(1970, 1, 1, 0, 0, 0, 1000),
            1 << 62,
            "146140482-04-24",
        ),
        (
            "long",
            "local-timestamp-micros",
            -1,
            types.DATETIME,
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            1 << 61,
            "7",
        ),
        ("long", "timestamp-nanos", -1, types.DATETIME, datetime(1969, 12, 31, 23, 59, 59, 999999), None, ""),
    ],
    ids=str,
)
def test_days_and_moments_are_read_as_those_of_parquet(
    tmp_path: Path,
    is_union: bool,
    kind: str,
    logical: str,
    number: int,
    read_as: types.Type,
    value: Any,
    odd: int | None,
    text: str,
) -> None:
    def schema(inner: Any) -> dict[str, Any]:
        named = [{"name": "v", "type": ["null", inner] if is_union else inner}, {"name": "i", "type": "long"}]
        return {"type": "record", "name": "R", "fields": named}

    numbers = [number, *([odd] if odd is not None else []), *([None] if is_union else [])]
    data = files.make([{"v": each, "i": 1} for each in numbers], schema(kind))
    plain = json.dumps(json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])).encode()
    told = json.dumps(schema({"type": kind, "logicalType": logical})).encode()
    start = data.index(plain)
    before = data[: start - len(container.number(len(plain)))]
    path = tmp_path / "rows.avro"
    path.write_bytes(before + container.number(len(told)) + told + data[start + len(plain) :])
    found = files.read(path, columns=[("v", read_as)])
    assert [row["v"] for row in found.rows] == [value, *([None] if is_union else [])]
    assert found.failed == (odd is not None)
    found = files.read(path, columns=[("v", types.STRING)])
    assert odd is None or str(found.rows[1]["v"]).startswith(text)


def test_a_schema_whose_references_multiply_is_refused_soon(tmp_path: Path) -> None:
    kind: dict[str, Any] = {"type": "record", "name": "R0", "fields": [{"name": "v", "type": "int"}]}
    for depth in range(1, 20):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{depth - 1}"}]
        kind = {"type": "record", "name": f"R{depth}", "fields": fields}
    path = tmp_path / "rows.avro"
    path.write_bytes(files.make([], kind))
    with pytest.raises(FormatError, match="refers to records so often"):
        files.read(path, columns=[("v", types.INT)])


def test_a_wide_file_is_read(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(3000)]
    fields = [{"name": name, "type": ["null", {"type": "array", "items": ["null", "long"]}]} for name in names]
    path = tmp_path / "rows.avro"
    path.write_bytes(files.make([{name: [1] for name in names}], {"type": "record", "name": "R", "fields": fields}))
    assert files.read(path, columns=[("c2999", types.ARRAY)]).rows == [{"c2999": "[1]"}]


def test_a_marker_among_the_values_makes_a_wrong_cut(tmp_path: Path) -> None:
    path = tmp_path / "rows.avro"
    marker = bytes(range(65, 81))
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
    rows = [{"s": marker.decode() + "\0\0"} for _ in range(50)]
    path.write_bytes(files.make(rows, schema, block=40, sync_marker=marker))
    columns = [("s", types.STRING)]
    assert not files.read(path, 30, columns).consistent
    found = files.read(path, 30, columns, exact=True)
    assert (found.rows, found.counted, found.consistent) == (rows, 50, True)


def test_every_byte_of_a_file_matters_or_does_not_and_nothing_breaks_down(tmp_path: Path) -> None:
    """Avro has no checksums: values may be others, but never fewer than the blocks say; cut off, it is whole blocks."""
    data = files.make([files.record(number) for number in range(4)], block=60)
    path = tmp_path / "rows.avro"
    known = {"whole": 0, "broken": 0}
    numbers = random.Random(7)
    changed = [(place, data[place] ^ numbers.choice((1, 2, 4, 16, 64, 128, 255))) for place in range(len(data))]
    changed += [(numbers.randrange(len(data)), numbers.randrange(256)) for _ in range(1000)]
    for place, byte in changed:
        path.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
        try:
            found = files.read(path)
        except FormatError:
            known["broken"] += 1
        else:
            assert len(found.rows) + found.failed == found.counted == 4
            known["whole"] += 1
    assert min(known.values()) > 100
    ends = 0
    for length in range(1, len(data)):
        path.write_bytes(data[:length])
        try:
            assert len(files.read(path).rows) < 4
            ends += 1
        except FormatError:
            pass
    assert ends == 4  # behind the header, and behind three of four blocks


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([{"name": "a", "type": "null"}], "its records have no bytes"),
        ([{"name": "a", "type": {"type": "array", "items": "null"}}], "an array of what has no bytes"),
        ([{"name": "a", "type": ["null", "R"]}], "refers to itself"),
        ([{"name": "a", "type": "unknown"}], "unknown type: unknown"),
        ([{"name": "a", "type": "bytes"}], "column 'a' is of the Avro type bytes"),
        ([{"name": "a", "type": {"type": "long", "logicalType": "time-micros"}}], "of the Avro type time-micros"),
        ([{"name": "a", "type": {"type": "map", "values": "bytes"}}], "of the Avro type map"),
        ([{"name": "a"}], "a record without fields"),
        ([], "its records have no bytes"),
    ],
    ids=str,
)
def test_schemas_that_are_refused(tmp_path: Path, fields: list[Any], message: str) -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
    words = container.number(len(b"avro.schema")) + b"avro.schema" + container.number(len(schema)) + schema
    path = tmp_path / "rows.avro"
    path.write_bytes(container.MAGIC + container.number(1) + words + container.number(0) + b"m" * 16)
    with pytest.raises(FormatError, match=message):
        files.read(path, columns=[("a", types.ANY)])


def test_a_block_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.avro"
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
    path.write_bytes(files.make([{"s": "x" * (200 << 20)}], schema, codec="deflate"))
    with pytest.raises(FormatError, match="longer than") as told:
        files.read(path, columns=[("s", types.STRING)])
    assert told.value.code == "E310"
