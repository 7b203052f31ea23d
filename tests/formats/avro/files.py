"""Avro files as fastavro writes them, and what this engine reads of them."""

from __future__ import annotations

import io
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro

from spark_jobs.cxl import types
from spark_jobs.formats import reading, splits
from spark_jobs.formats.avro.options import AvroRead
from spark_jobs.formats.avro.read import AvroReader
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.scan import files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "x.Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": ["null", "string"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {
            "name": "sub",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Sub",
                    "fields": [
                        {"name": "a", "type": "int"},
                        {"name": "kinds", "type": {"type": "array", "items": "Kind"}},
                    ],
                },
            ],
        },
        {"name": "sizes", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "any", "type": ["int", "string", "null"]},
        {"name": "raw", "type": "bytes"},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "share", "type": "float"},
        {"name": "is", "type": "boolean"},
    ],
}
COLUMNS = (
    ("id", types.INT),
    ("n", types.STRING),
    ("day", types.DATE),
    ("at", types.DATETIME),
    ("price", types.STRING),
    ("kind", types.STRING),
    ("sub.a", types.INT),
    ("sub.kinds", types.ARRAY),
    ("sizes", types.MAP),
    ("any", types.ANY),
    ("key", types.STRING),
    ("share", types.FLOAT),
    ("is", types.BOOL),
)


def record(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "n": None if number % 3 == 0 else f"n{number}",
        "day": date(2024, 1, 1) + timedelta(number % 300),
        "at": None if number % 5 == 0 else datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
        "price": Decimal(number) / 100,
        "kind": "AB"[number % 2],
        "sub": None if number % 4 == 0 else {"a": -number, "kinds": ["A"] * (number % 3)},
        "sizes": {"k": number / 2, "z": None},
        "any": [number, f"s{number}", None][number % 3],
        "raw": b"\0\1",
        "key": uuid.UUID(int=number),
        "share": number / 4,
        "is": number % 2 == 0,
    }


def expected(number: int) -> dict[str, Any]:
    """The record as it is read."""
    given = record(number)
    sub = given.pop("sub")
    at, value = given["at"], given["any"]
    del given["raw"]
    return given | {
        "at": at and at.replace(tzinfo=None),
        "price": f"{number // 100}.{number % 100:02}",
        "sub.a": sub and sub["a"],
        "sub.kinds": None if sub is None else "[" + ",".join(['"A"'] * (number % 3)) + "]",
        "sizes": f'{{"k":{number / 2},"z":null}}',
        "any": f'"{value}"' if isinstance(value, str) else None if value is None else str(value),
        "key": str(given["key"]),
    }


def make(records: Sequence[Any], schema: Any = None, codec: str = "null", block: int = 500, **more: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, schema or SCHEMA, records, codec=codec, sync_interval=block, **more)
    return sink.getvalue()


@dataclass
class Found:
    rows: list[dict[str, Any]] = field(default_factory=list)
    failed: int = 0
    counted: int = 0
    splits: int = 0
    consistent: bool = True


def read(
    path: Path,
    split: int = 1 << 40,
    columns: Sequence[tuple[str, types.Type]] = COLUMNS,
    *,
    block: int = 4 << 20,
    exact: bool = False,
) -> Found:
    """All splits of a file."""
    reader = AvroReader(AvroRead())
    scan = reader.plan([name for name, _ in columns], [files.describe(str(path), path.name)], OnUnmapped.DROP)
    wanted = Reading(tuple(SourceColumn(*column) for column in columns), block_bytes=block)
    cut = splits.plan(scan.files, split)
    if exact:
        cut = reader.exact_splits(scan.files[0], cut)
    found = Found(splits=len(cut))
    for each in cut:
        outcome = reading.SplitOutcome()
        for made in reader.read(each, scan.files[0], wanted, outcome):
            found.rows += made.batch.to_pylist()
            found.failed += len(made.failures)
        found.consistent &= outcome.is_consistent
        counted = reading.SplitOutcome()
        reader.count(each, scan.files[0], counted)
        found.counted += counted.records
    return found
