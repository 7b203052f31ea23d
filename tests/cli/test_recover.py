"""`clinker recover`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute.delivery.local import draft_folder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import AnyBucket, Bucket


def recover(*arguments: str) -> int:
    return clinker.main(["recover", *arguments])


def test_what_a_dead_run_left_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = draft_folder.DraftFolder.make(tmp_path, "r")
    left.close()
    assert recover(str(tmp_path)) == 0
    assert capsys.readouterr().out == f"{tmp_path}/.clinker-r: completed or removed\n"
    assert list(tmp_path.iterdir()) == []
    assert recover(str(tmp_path)) == 0
    assert capsys.readouterr().out == f"{tmp_path}: nothing is left of dead runs\n"


def test_what_a_dead_run_left_in_a_store_goes(bucket: AnyBucket, capsys: pytest.CaptureFixture[str]) -> None:
    bucket.put("out/.clinker-r/parts/x", "left")
    assert recover(bucket.uri("out")) == 0
    assert capsys.readouterr().out == f"{bucket.uri('out/.clinker-r/')}: completed or removed\n"
    assert bucket.keys() == []


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("no/such/folder", "there is no such folder"),
        ("viewfs://bucket/out", "runs write to local folders and to abfss://, gs://, hdfs://, s3://, "),
        ("s3://", "it names no bucket"),
    ],
)
def test_what_is_no_folder_is_told(folder: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert recover(folder) == 1
    assert said in capsys.readouterr().err


def test_a_store_that_refuses_is_told(s3: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    assert recover("s3://no-such-bucket-of-this-test/out") == 4
    assert "E910" in capsys.readouterr().err
