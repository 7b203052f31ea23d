"""An output with a folder for each of many input files, under the limit of open files that a process has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute import verdict
from spark_jobs.execute.delivery.local import descriptors
from tests.execute import pipelines

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDERS = 120
PIPELINE = """
pipeline: {name: many}
nodes:
  - {type: source, name: rows, config: {type: csv, glob: "in/*.csv", schema: {n: int}}}
  - {type: output, name: each, input: rows, config: {type: csv, path: "out/{source_file}/rows.csv"}}
"""
#: Limits hold for a process and its children, so the run has one of its own.
LIMITED = """
import resource, sys
import pytest
from spark_jobs.cli import clinker
from tests.execute import without_spark
without_spark.install(pytest.MonkeyPatch())
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[3])))
sys.exit(clinker.main(["run", sys.argv[1], "--quiet"]))
"""


def limited(folder: Path, soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    pipelines.write(folder, {"pipeline.yaml": PIPELINE, **{f"in/f{i}.csv": f"n\n{i}\n" for i in range(FOLDERS)}})
    command = [sys.executable, "-c", LIMITED, str(folder / "pipeline.yaml"), str(soft), str(hard)]
    root = Path(__file__).resolve().parents[3]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, check=False, timeout=300)


def test_the_soft_limit_is_raised_for_a_folder_for_each_input_file(tmp_path: Path) -> None:
    ended = limited(tmp_path, 200, 2000)
    assert ended.returncode == 0, ended.stderr
    assert len([*tmp_path.glob("out/*/rows.csv")]) == FOLDERS
    assert [*tmp_path.glob("out/**/.clinker-*")] == []


def test_a_hard_limit_that_is_too_low_is_told_before_anything_is_read(tmp_path: Path) -> None:
    ended = limited(tmp_path, 200, 400)
    assert ended.returncode == 4
    assert f"error[E908]: the run publishes into {FOLDERS} folders and needs " in ended.stderr
    assert "the process may have 400: raise the hard limit" in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("soft", "hard", "becomes"),
    [(1024, 4096, None), (300, 4096, "wanted"), (300, -1, "wanted"), (-1, -1, None), (300, 300, "E908")],
)
def test_the_limit_is_raised_as_far_as_needed(
    soft: int, hard: int, becomes: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[tuple[int, int]] = []
    to: Callable[..., None] = lambda which, limits: changed.append(limits)  # noqa: E731
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(descriptors.resource, "setrlimit", to)
    if becomes == "E908":
        with pytest.raises(verdict.RunFailed, match="300"):
            descriptors.provide(100)
        return
    descriptors.provide(100)
    needed = 100 * descriptors.OF_A_FOLDER
    assert not changed if becomes is None else (changed[0][0] > needed and changed[0][1] == hard)
