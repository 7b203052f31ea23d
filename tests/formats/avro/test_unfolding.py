"""Small Avro files that stand for far more than a task may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

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

MOST = 1 << 20


def _read(folder: Path, data: bytes) -> list[int]:
    path = folder / "in.avro"
    path.write_bytes(data)
    assert len(data) < 200_000
    columns = (SourceColumn("a", types.ANY),)
    known = registry.named("avro")
    reader = known.reader(known.read_options()).knowing(columns)
    scan = reader.plan(("a",), [files.describe(str(path), path.name)], OnUnmapped.DROP)
    (split,) = splits.plan(scan.files, 1 << 30)
    wanted = Reading(columns, scan.widened, record_bytes=MOST)
    return [block.count for block in reader.read(split, scan.files[0], wanted, SplitOutcome())]


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


@pytest.mark.parametrize("kind", [{"type": "array", "items": "long"}, {"type": "map", "values": "long"}])
def test_a_list_that_no_task_can_hold_is_refused(tmp_path: Path, kind: Any) -> None:
    data = container.number(100_000) + b"\0" * 200_001
    with pytest.raises(FormatError, match="the block at byte") as refused:
        _read(tmp_path, hostile_files.avro(hostile_files.record(kind), 1, data))
    assert refused.value.code == "E310"
