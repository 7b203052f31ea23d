"""The columns of sources in `explain`: where each is from, and what is said where that is not known."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker, source_probe

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{ name: shop }}
nodes:
  - {{ type: source, name: orders, config: {{ schema: {{ id: int, name: string }}, {source} }} }}
  - {{ type: output, name: out, input: orders, config: {{ type: csv, path: out.csv }} }}
"""
CSV = 'type: csv, glob: "in/*.csv"'
JSON = 'type: json, glob: "in/*.json"'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path


def put(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / "in" / name).write_text(text)


def explained(folder: Path, capsys: pytest.CaptureFixture[str], source: str) -> tuple[list[str], dict[str, Any]]:
    """The section of the text form without its title, and the source's columns in the JSON form."""
    (folder / "p.yaml").write_text(PIPELINE.format(source=source))
    assert clinker.main(["run", "p.yaml", "--explain"]) == 0
    section = capsys.readouterr().out.split("=== Source Columns ===\n\n")[1].split("\n\n")[0].splitlines()
    assert clinker.main(["explain", "p.yaml", "--format", "json"]) == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert "source_columns" not in nodes[1]
    return section, nodes[0]["source_columns"]


def test_columns_are_declared_missing_or_discovered_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, {"a.csv": "id,name\n1,x\n", "b.csv": "", "c.csv": "id,tip\n2,3\n"})
    section, record = explained(tmp_path, capsys, CSV)
    assert section == [
        "source.orders: 3 files looked into, 1 without bytes, version 2",
        "  id: declared",
        "  name: declared, missing in 1 of 2 files",
        "  tip: discovered in in/c.csv",
    ]
    assert record == {
        "files_total": 3,
        "files_looked_at": 3,
        "files_skipped_empty": 1,
        "schema_version": 2,
        "columns": [
            {"name": "id", "origin": "declared", "missing_in_files": 0},
            {"name": "name", "origin": "declared", "missing_in_files": 1},
            {"name": "tip", "origin": "discovered", "file": "in/c.csv", "dropped": False},
        ],
        "unknown_because": None,
    }


def test_dropped_columns_are_listed_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, {"a.csv": "id,name,tip\n1,x,2\n", "a.json": '{"id":1,"name":"x","tip":2}'})
    section, record = explained(tmp_path, capsys, f"{CSV}, on_unmapped: drop")
    assert section[-1] == "  tip: discovered in in/a.csv, dropped"
    assert record["columns"][-1]["dropped"] is True
    section, record = explained(tmp_path, capsys, f"{JSON}, on_unmapped: drop")
    assert section[-1] == "  undeclared members are dropped without being looked for"
    assert [column["name"] for column in record["columns"]] == ["id", "name"]


def test_json_files_tell_their_columns_as_far_as_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {"a.json": '{"id":1,"tip":2}', "b.json": '{"id":1,"deep":{"er":2}}', "c.json": '{"more":1}'})
    section, _ = explained(tmp_path, capsys, JSON)
    assert section[1:] == [
        "  id: declared, missing in 1 of 3 files",
        "  name: declared, missing in 3 of 3 files",
        "  tip: discovered in in/a.json",
        "  deep.er: discovered in in/b.json",
        "  more: discovered in in/c.json",
    ]
    monkeypatch.setattr(source_probe, "MOST_BYTES", 20)
    section, record = explained(tmp_path, capsys, JSON)
    assert section[0].startswith("source.orders: 1 of 3 files looked into, version 2 (explain reads ")
    assert record["files_looked_at"] == 1
    monkeypatch.setattr(source_probe, "MOST_BYTES", 10)
    section, record = explained(tmp_path, capsys, JSON)
    assert section[0].startswith("source.orders: only what is declared is known: explain reads ")
    assert section[1:] == ["  id: declared", "  name: declared"]
    assert record["schema_version"] is None


def test_no_more_than_some_files_are_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {f"{number}.csv": "id,name\n" for number in range(4)})
    monkeypatch.setattr(source_probe, "MOST_FILES", 3)
    section, _ = explained(tmp_path, capsys, CSV)
    assert section[0] == (
        "source.orders: 3 of 4 files looked into, version 1 (explain opens 3 files of a source at most)"
    )


@pytest.mark.parametrize(
    ("texts", "source", "reason"),
    [
        ({}, CSV, "no file"),
        ({"a.csv": "x,y\n"}, CSV, "E222: in/a.csv: the header has none of the declared columns"),
        ({"a.csv": "id,id\n"}, CSV, "in/a.csv: "),
        ({"a.json": "[1,"}, JSON, "in/a.json: broken JSON"),
        ({}, "type: json, path: 'https://shop.test/orders.json'", "a run fetches its files from a network"),
    ],
)
def test_what_cannot_be_known_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], texts: dict[str, str], source: str, reason: str
) -> None:
    put(tmp_path, texts)
    section, record = explained(tmp_path, capsys, source)
    assert section[0].startswith("source.orders: only what is declared is known: ")
    assert reason in section[0]
    assert section[1:] == ["  id: declared", "  name: declared"]
    assert reason in record["unknown_because"]


def test_control_characters_of_headers_are_shown_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, {"a.csv": "id,\x1b[31mred\n"})
    section, _ = explained(tmp_path, capsys, CSV)
    assert not any("\x1b" in line for line in section)


def test_a_small_file_that_unpacks_to_very_much_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = gzip.compress(b'{"id":1,"tip":2}\n' * 20_000)
    monkeypatch.setattr(source_probe, "MOST_BYTES", 10 * len(packed))
    (tmp_path / "in/a.json.gz").write_bytes(packed)
    (tmp_path / "in/b.json.gz").write_bytes(b"")
    section, _ = explained(tmp_path, capsys, JSON.replace(".json", "/a.json.gz").replace("*/", ""))
    assert section[0].startswith("source.orders: only what is declared is known: explain reads ")
    section, _ = explained(tmp_path, capsys, JSON.replace(".json", "/b.json.gz").replace("*/", ""))
    assert "it is empty" in section[0]
