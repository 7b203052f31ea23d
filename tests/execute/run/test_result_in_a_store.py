"""Result records that go to a store, for schedulers that share no folder with the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import Bucket

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


def run(work_dir: str, *arguments: str) -> int:
    return clinker.main(["run", "pipeline.yaml", "--work-dir", work_dir, "--execution-id", "run-1", *arguments])


def test_a_record_is_left_in_a_store_and_local_files_stay_here(s3: Bucket, tmp_path: Path) -> None:
    assert run(s3.uri("work")) == 0
    assert s3.keys() == ["work/run-1/result.json"]
    record = json.loads(s3.get("work/run-1/result.json"))
    assert (record["status"], record["records_written"]) == ("success", 2)
    assert {path.name for path in tmp_path.iterdir()} == {"pipeline.yaml", "in.csv", "out"}


def test_a_run_that_is_refused_leaves_its_record_too(s3: Bucket, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("input: s", "input: t"))
    assert run(s3.uri("work")) == 1
    assert json.loads(s3.get("work/run-1/result.json"))["error"]["code"] == "E004"


def test_a_store_that_takes_no_record_ends_the_run_before_it_reads_anything(
    s3: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("s3://no-such-bucket-1/work") == 4
    text = capsys.readouterr().err
    assert (
        "error[E910]: no result record can be left in `--work-dir`: s3://no-such-bucket-1/work/.clinker-tried-" in text
    )
    assert "no bucket is named `no-such-bucket-1`" in text
    assert not (tmp_path / "out").exists()


def test_a_uri_that_leads_nowhere_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("s3://x/work") == 1
    assert "argument --work-dir: `x` is not a bucket name" in capsys.readouterr().err
