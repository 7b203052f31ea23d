"""The collection of metrics files into one archive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs import spool

if TYPE_CHECKING:
    from pathlib import Path


def metrics(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(
        json.dumps({"execution_id": name, "schema_version": 1, "nested": {"ü": [1]}}, indent=2), encoding="utf-8"
    )
    return path


def ids(archive: Path) -> list[str]:
    return [json.loads(line)["execution_id"] for line in archive.read_text(encoding="utf-8").splitlines()]


def test_files_are_appended_in_order_of_ids_and_stay(tmp_path: Path) -> None:
    metrics(tmp_path / "spool", "b"), metrics(tmp_path / "spool", "a")
    archive = tmp_path / "archive" / "all.ndjson"
    assert len(spool.collect(tmp_path / "spool", archive).documents) == 2
    spool.collect(tmp_path / "spool", archive)
    assert ids(archive) == ["a", "b", "a", "b"]


def test_collected_files_can_be_deleted_and_others_stay(tmp_path: Path) -> None:
    metrics(tmp_path, "a")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".a.json").write_text("{")  # a run is writing
    (tmp_path / "other.json").write_text('{"no": "metrics"}')
    (tmp_path / "torn.json").write_text('{"execution_id": ')
    archive = tmp_path / "all.ndjson"
    collected = spool.collect(tmp_path, archive, delete=True)
    assert [document.path.name for document in collected.documents] == ["a.json"]
    assert [path.name for path, _ in collected.skipped] == ["other.json", "torn.json"]
    assert {path.name for path in tmp_path.iterdir()} == {
        ".a.json",
        "all.ndjson",
        "notes.txt",
        "other.json",
        "torn.json",
    }


def test_dry_run_changes_nothing(tmp_path: Path) -> None:
    metrics(tmp_path / "spool", "a")
    collected = spool.collect(tmp_path / "spool", tmp_path / "all.ndjson", delete=True, dry_run=True)
    assert len(collected.documents) == 1
    assert [path.name for path in tmp_path.rglob("*.*")] == ["a.json"]


def test_torn_archive_is_not_made_worse(tmp_path: Path) -> None:
    metrics(tmp_path / "spool", "a")
    archive = tmp_path / "all.ndjson"
    archive.write_text('{"execution_id":"x"}\n{"execution_id":"to')
    spool.collect(tmp_path / "spool", archive)
    assert archive.read_text().splitlines()[2].startswith('{"execution_id":"a"')


def test_nothing_is_deleted_when_the_archive_cannot_be_written(tmp_path: Path) -> None:
    path = metrics(tmp_path / "spool", "a")
    (tmp_path / "all.ndjson").mkdir()
    with pytest.raises(OSError, match=r"all\.ndjson"):
        spool.collect(tmp_path / "spool", tmp_path / "all.ndjson", delete=True)
    assert path.exists()


def test_missing_spool_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spool.collect(tmp_path / "nowhere", tmp_path / "all.ndjson")


def test_a_name_that_utf_8_cannot_hold_is_collected_like_every_other(tmp_path: Path) -> None:
    path = tmp_path / "spool" / "a.json"
    path.parent.mkdir()
    path.write_text('{"execution_id":"a","schema_version":1,"config_path":"e\\udcff.yaml"}')
    spool.collect(tmp_path / "spool", tmp_path / "all.ndjson", delete=True)
    assert json.loads((tmp_path / "all.ndjson").read_text())["config_path"] == "e\udcff.yaml"
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 200_000, "nested too deeply"),
        (b'{"execution_id":"a","schema_version":99}', "schema_version 99"),
        (b'{"execution_id":"a"}', "schema_version None"),
        (b"\xff", "utf-8"),
        (b'{"schema_version":1}', "execution_id"),
    ],
)
def test_a_file_that_is_no_metrics_stops_no_other(tmp_path: Path, content: bytes, reason: str) -> None:
    metrics(tmp_path / "spool", "b")
    (tmp_path / "spool" / "a.json").write_bytes(content)
    (tmp_path / "spool" / "c.json").mkdir()
    collected = spool.collect(tmp_path / "spool", tmp_path / "all.ndjson", delete=True)
    (bad, why), (folder, _) = collected.skipped
    assert (bad.name, folder.name) == ("a.json", "c.json")
    assert reason in why
    assert ids(tmp_path / "all.ndjson") == ["b"]
    assert bad.exists()


def test_a_file_that_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = metrics(tmp_path / "spool", "a")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "unlink", denied)
    assert spool.collect(tmp_path / "spool", tmp_path / "all.ndjson", delete=True).kept == (
        (path, "Permission denied"),
    )
