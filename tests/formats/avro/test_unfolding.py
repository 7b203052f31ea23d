"""Small Avro files that stand for far more than a task may hold."""

from __future__ import annotations

import io
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from spark_jobs import limits
from spark_jobs.cxl import types
from spark_jobs.formats import registry, splits
from spark_jobs.formats.avro import container
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from tests.attack import hostile_files

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.formats.format import Block

MOST = 1 << 20


def _read(folder: Path, data: bytes) -> list[int]:
    return [block.count for block in _blocks(folder, data, "a")]


def _blocks(folder: Path, data: bytes, names: str) -> list[Block]:
    path = folder / "in.avro"
    path.write_bytes(data)
    assert len(data) < 200_000
    columns = tuple(SourceColumn(name, types.ANY) for name in names)
    known = registry.named("avro")
    reader = known.reader(known.read_options()).knowing(columns)
    scan = reader.plan(tuple(names), [files.describe(str(path), path.name)], OnUnmapped.DROP)
    (split,) = splits.plan(scan.files, 1 << 30)
    wanted = Reading(columns, scan.undeclared, record_bytes=MOST)
    return [*reader.read(split, scan.files[0], wanted, SplitOutcome())]


def _decimal(scale: int, data: bytes, precision: int = 30) -> bytes:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": max(precision, scale), "scale": scale}
    return hostile_files.avro(hostile_files.record(kind), 1, container.number(len(data)) + data)


@pytest.mark.parametrize("scale", [1001, 1_000_000_000])
def test_a_decimal_with_more_places_than_any_system_writes_is_refused(tmp_path: Path, scale: int) -> None:
    with pytest.raises(FormatError, match=f"its schema has a decimal of scale {scale}"):
        _read(tmp_path, _decimal(scale, b"\5"))


def test_a_decimal_with_more_digits_than_any_system_writes_is_refused(tmp_path: Path) -> None:
    assert _read(tmp_path, _decimal(2, b"\x7f" * 12)) == [1]
    with pytest.raises(FormatError, match="a decimal has more than 1000 digits"):
        _read(tmp_path, _decimal(2, b"\x7f" * 500_000))


def test_a_header_of_words_without_end_is_refused_soon(tmp_path: Path) -> None:
    words = container.number(1_000_000) + b"\0\0" * 90_000
    with pytest.raises(FormatError, match="its header has more than 10000 words"):
        _read(tmp_path, hostile_files.avro(hostile_files.record("string"), 1, b"\0", words))


def test_records_of_many_columns_without_bytes_are_made_a_few_at_a_time(tmp_path: Path) -> None:
    schema = hostile_files.record("string", *["null"] * 500)
    counts = _read(tmp_path, hostile_files.avro(schema, 2000, b"\0" * 2000))
    assert sum(counts) == 2000
    assert max(counts) <= MOST // (100 * 500)


def test_records_without_end_that_have_as_good_as_no_bytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = hostile_files.avro(hostile_files.record("string"), 900_000, b"\0" * 900_000)
    monkeypatch.setattr(limits, "EMPTY_RECORDS", 900_000)
    monkeypatch.setattr(limits, "EMPTY_RECORDS_PER_BYTE", 1)
    assert sum(_read(tmp_path, data)) == 900_000
    monkeypatch.setattr(limits, "EMPTY_RECORDS", 899_999)
    with pytest.raises(FormatError, match="it has more than 899999 records in") as refused:
        _read(tmp_path, data)
    assert refused.value.code == "E310"


_POINT = {"type": "record", "name": "p", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}


@pytest.mark.parametrize("items", ["long", _POINT, ["null", "long"], {"type": "array", "items": "long"}])
@pytest.mark.parametrize("kind", ["array", "map"])
def test_a_list_that_no_task_can_hold_is_refused(tmp_path: Path, kind: str, items: Any) -> None:
    schema = hostile_files.record({"type": kind, "items" if kind == "array" else "values": items})
    data = container.number(100_000) + b"\0" * 300_001
    with pytest.raises(
        FormatError, match=r"a record in the block at byte .* has values that take more than"
    ) as refused:
        _read(tmp_path, hostile_files.avro(schema, 1, data[: 3 + _bytes_of(schema, 100_000)]))
    assert refused.value.code == "E310"


def _bytes_of(schema: Any, count: int) -> int:
    """How many zeros so many values of zeros are, with the end of their list."""
    kind = schema["fields"][0]["type"]
    items = kind.get("items", kind.get("values"))
    return count * ((kind["type"] == "map") + (2 if items == _POINT else 1)) + 1


@pytest.mark.parametrize("items", ["long", "string", ["null", "long"], _POINT, {"type": "map", "values": "double"}])
def test_a_large_block_of_ordinary_arrays_is_read(tmp_path: Path, items: Any) -> None:
    kind = {"type": "array", "items": items}
    one = {"long": 7, "string": "abc", "['null', 'long']": None}.get(str(items), {"x": 1, "y": 2})
    one = {"": 0.5} if "values" in items else one
    records = [{"a": [one] * (at % 40)} for at in range(4000)]
    path = tmp_path / "in.avro"
    with path.open("wb") as sink:
        fastavro.writer(sink, hostile_files.record(kind), records, codec="deflate", sync_interval=1 << 30)
    counts = _read(tmp_path, path.read_bytes())
    assert sum(counts) == 4000
    assert len(counts) > 1


def test_values_of_a_large_block_are_those_of_a_small_one(tmp_path: Path) -> None:
    day = {"type": "int", "logicalType": "date"}
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    kinds = [{"type": "array", "items": each} for each in (day, amount, ["null", "string"])]
    records = [
        {"a": [date(2026, 1, 1 + at % 28)] * 9, "b": [Decimal(at) / 100] * 9, "c": [None, f"t{at}"] * 5}
        for at in range(2000)
    ]
    found = []
    for interval in (100, 1 << 30):
        sink = io.BytesIO()
        fastavro.writer(sink, hostile_files.record(*kinds), records, codec="deflate", sync_interval=interval)
        found.append([row for block in _blocks(tmp_path, sink.getvalue(), "abc") for row in block.batch.to_pylist()])
    assert len(found[0]) == 2000
    assert found[0] == found[1]
