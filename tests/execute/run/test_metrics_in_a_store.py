"""Metrics files that go to a store, and are collected from there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import AnyBucket, Bucket

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int}}}
  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv, if_exists: overwrite}}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "in.csv": "id\n1\n2\n"})


def test_metrics_are_written_to_a_store_and_collected_from_it(
    bucket: AnyBucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [pipelines.run(tmp_path, metrics_spool_dir=bucket.uri("spool")).result.metrics_path for _ in range(2)]
    assert sorted(bucket.uri(key) for key in [*bucket.keys()]) == sorted(map(str, paths))
    assert json.loads(bucket.get(paths[0].removeprefix(bucket.uri(""))))["records_total"] == 2
    bucket.put("spool/note.json", "[]")
    bucket.put("spool/deep/other.json", "{}")

    collect = ["metrics", "collect", "--spool-dir", bucket.uri("spool"), "--output-file", "all.ndjson"]
    assert clinker.main([*collect, "--dry-run"]) == 0
    assert "Would collect 2 file(s)" in capsys.readouterr().out
    assert clinker.main([*collect, "--delete-after-collect"]) == 0
    assert f"{bucket.uri('spool/note.json')} is skipped" in capsys.readouterr().err
    assert len((tmp_path / "all.ndjson").read_text().splitlines()) == 2
    assert [*bucket.keys()] == ["spool/deep/other.json", "spool/note.json"]


@pytest.mark.parametrize("folder", ["s3://no-such-bucket-here/x", "viewfs://bucket/x", "s3:///x"])
def test_metrics_that_cannot_be_written_undo_no_run(
    folder: str, s3: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = pipelines.run(tmp_path, metrics_spool_dir=folder).result
    assert (found.error, found.metrics_path) == (None, None)
    assert "metrics are not written" in caplog.text


@pytest.mark.parametrize(
    ("folder", "code"), [("s3://no-such-bucket-here/x", 4), ("viewfs://bucket/x", 1), ("s3://u:secret@b/x", 1)]
)
def test_a_store_that_refuses_is_told(folder: str, code: int, s3: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["metrics", "collect", "--spool-dir", folder, "--output-file", "all.ndjson"]) == code
    assert "secret" not in capsys.readouterr().err
