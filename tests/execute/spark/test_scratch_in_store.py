"""Tasks in processes of their own reach the scratch location in a store, which nobody but the driver was told of."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.execute import correlated_runs, pipelines, without_spark
from tests.execute.tasks.test_splits import without_ids

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import Bucket

pytestmark = pytest.mark.spark


def test_the_files_are_those_of_a_local_scratch_location(
    tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.write(tmp_path, correlated_runs.files(300))
    pipelines.with_splits(monkeypatch, tmp_path, "lines.csv", 2)
    with pytest.MonkeyPatch.context() as patch:
        without_spark.install(patch)
        assert pipelines.run(tmp_path).result.exit_code == 2
    expected = without_ids(pipelines.outputs(tmp_path))
    (tmp_path / "clinker.toml").write_text(f'[storage]\nscratch = "{s3.uri("work")}"\n')
    # A process of its own: the JVM of an earlier test has an environment without the bucket's credentials.
    command = [sys.executable, "-m", "spark_jobs", "run", str(tmp_path / "pipeline.yaml"), "--force", "--threads", "2"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2, run.stderr
    assert without_ids(pipelines.outputs(tmp_path)) == expected
    assert s3.keys() == []
