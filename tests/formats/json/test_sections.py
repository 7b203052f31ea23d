"""Sections of JSON documents: what is beside them takes no memory, and changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import types
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading, Section
from spark_jobs.formats.json.options import JsonRead
from spark_jobs.formats.json.read import JsonReader
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from spark_jobs.tuning import Tuning

if TYPE_CHECKING:
    from pathlib import Path

_SECTIONS = (
    Section("top", "json_pointer", "", (("id", types.INT), ("at", types.DATE))),
    Section("meta", "json_pointer", "/meta", (("a/b", types.STRING), ("n", types.INT))),
    Section("inner", "json_pointer", "/meta/in~1ner", (("x", types.STRING),)),
    Section("second", "json_pointer", "/list/1", (("x", types.INT),)),
    Section("last", "json_pointer", "/end", (("sum", types.INT),)),
)


def _document(path: Path, *, portion: int, record_bytes: int = 1 << 20, **options: Any) -> dict[str, Any]:
    reader = replace(JsonReader(JsonRead(record_path="d", **options)), tuning=Tuning(json_portion_bytes=portion))
    scan = reader.plan((), [files.describe(str(path), path.name)], OnUnmapped.DROP)
    return dict(reader.document(scan.files[0], Reading((), sections=_SECTIONS, record_bytes=record_bytes)))


@pytest.mark.parametrize(
    "text",
    [
        '{"d": [{"a": "}]"}], "id": 7, "at": "2026-01-02", "meta": {"a/b": "é", "n": 3}, "end": {"sum": 4}}',
        '{"other": {"id": 1, "end": [[{}]]}, "id": 7, "d": [], "meta": {"in/ner": {"x": "1", "y": {"x": 2}}}}',
        '{"list": [{"x": 1}, {"x": 2}, 3], "d": [1, [2, "\\"]"]], "end": null, "meta": {}}',
        '{"id": 1, "d": [], "id": 2, "meta": {"n": 1}, "meta": {"n": 2}}',
        '\n {"d":[],"x":{"y":"{[\\\\"},"z":-1.5e3,"t":true,"id":9}\n\n',
        "{}",
    ],
)
def test_a_long_document_has_the_sections_of_a_short_one(text: str, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(text, encoding="utf-8")
    assert _document(path, portion=8) == _document(path, portion=1 << 20)


@pytest.mark.parametrize(
    "text",
    [
        '{"d": [], "id": 1}\n{"d": []}',
        '{"d": [], "id": "one"}',
        '{"d": [], "meta": [1]}',
        '{"d": [], "meta": {"in/ner": 5}}',
        '{"d": [], "x": [1, 2, "id": 1}',
        '{"d": [], "id": 1',
        '{"d": [], id: 1}',
    ],
)
def test_a_long_document_is_refused_as_a_short_one(text: str, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(text)
    said = []
    for portion in (8, 1 << 20):
        with pytest.raises(FormatError) as refused:
            _document(path, portion=portion)
        said.append(refused.value.message)
    assert said[0] == said[1]


def test_records_and_values_beside_sections_may_be_longer_than_memory(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    beside = [{"a": "x" * 1000}] * 3000
    path.write_text(json.dumps({"x": {"y": beside}, "d": beside, "end": {"sum": 3, "other": beside}}))
    assert _document(path, portion=64 << 10, record_bytes=100_000) == {"doc.last.sum": 3}


def test_a_value_of_a_section_that_no_task_could_hold_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"d": [], "meta": {"a/b": "x" * 500_000}}))
    with pytest.raises(FormatError, match="what a section leads to is longer than") as refused:
        _document(path, portion=64 << 10, record_bytes=100_000)
    assert refused.value.code == "E310"
