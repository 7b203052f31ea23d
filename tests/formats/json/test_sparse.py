"""Records that have few of many columns: read one by one, with the same values, and written without the others."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import types
from spark_jobs.formats.format import SourceColumn
from spark_jobs.formats.json.fast import arrow, quick
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from tests.formats.json.test_json_writer import write
from tests.formats.json.test_ways import are_same, read

if TYPE_CHECKING:
    from pathlib import Path

_VALUES = [1, 1.5, "x", True, None, [1, "y"], {"k": 1}, 10**30, "é"]
_COLUMNS = [SourceColumn("id", types.INT, required=True), SourceColumn("c7", types.FLOAT)]


def lines(columns: int, members: int, rows: int) -> list[str]:
    chance = random.Random(columns)
    names = [f"c{number}" for number in range(columns)]
    return [
        json.dumps({"id": row, **{name: chance.choice(_VALUES) for name in chance.sample(names, members)}})
        for row in range(rows)
    ]


@pytest.fixture
def quick_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    real = arrow.read
    monkeypatch.setattr(arrow, "read", lambda *given, **named: found.append(given[1]) or real(*given, **named))
    return found


@pytest.mark.parametrize("layout", [JsonLayout.NDJSON, JsonLayout.ARRAY])
def test_the_way_in_which_sparse_records_are_read_makes_no_difference(
    layout: JsonLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [*lines(400, 5, 60), '{"id": 9.5}', '{"c3": 1}', '{"id": 61, "c7": "z"}']
    text = "\n".join(given) if layout is JsonLayout.NDJSON else f"[{','.join(given)}]"
    sparse = read(tmp_path / "in.json", text, _COLUMNS, options=JsonRead(layout))
    monkeypatch.setattr(quick, "_MANY_COLUMNS", 10_000)
    assert are_same(sparse, read(tmp_path / "in.json", text, _COLUMNS, options=JsonRead(layout)))
    assert len(sparse.good) == 60
    assert [row for row, *_ in sparse.bad] == sorted(row for row, *_ in sparse.bad)


@pytest.mark.parametrize(("columns", "members", "rows", "is_quick"), [(400, 3, 50, False), (300, 300, 200, True)])
def test_many_columns_are_read_at_once_where_records_have_them(
    columns: int, members: int, rows: int, is_quick: bool, tmp_path: Path, quick_reads: list[int]
) -> None:
    text = "\n".join(lines(columns, members, rows))
    read(tmp_path / "in.json", text, _COLUMNS[:1], undeclared=tuple(f"c{number}" for number in range(columns)))
    assert bool(quick_reads) == is_quick


@pytest.mark.parametrize("preserve", [False, True])
def test_columns_without_any_value_are_left_out_or_null(preserve: bool) -> None:
    columns: dict[str, tuple[types.Type, list[Any]]] = {
        "a": (types.STRING, [None, None]),
        "b": (types.INT, [None, 2]),
        "c": (types.ANY, [None, None]),
    }
    found = bytes(write(columns, preserve_nulls=preserve)[1].data).decode().splitlines()
    expected = [{"a": None, "b": None, "c": None}, {"a": None, "b": 2, "c": None}] if preserve else [{}, {"b": 2}]
    assert [json.loads(line) for line in found] == expected
