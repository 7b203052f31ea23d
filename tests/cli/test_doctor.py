"""`clinker doctor` finds what would stop a run, says how to mend it, and leaves nothing behind."""

from __future__ import annotations

import json
import socket
import tempfile
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker, doctor
from spark_jobs.cli.doctor import State
from spark_jobs.disk import volumes
from spark_jobs.execute.spark.embedded import java as javas

if TYPE_CHECKING:
    from pathlib import Path


def test_all_is_well_where_these_tests_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["doctor", "--base-dir", str(tmp_path), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    states = {finding["check"]: finding["state"] for finding in told["findings"]}
    assert states.keys() >= {"python", "packages", "pyspark", "java", "machine", "spill folder", "start-up cache"}
    assert State.PROBLEM not in states.values()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "state"), [((3, 10), State.PROBLEM), ((3, 11), State.OK), ((3, 14), State.PROBLEM)]
)
def test_a_python_that_the_engine_does_not_run_on_is_a_problem(version: tuple[int, int], state: State) -> None:
    found = doctor.python(version)
    assert found.state is state
    assert ("3.11 to 3.13" in found.remedy) is (state is State.PROBLEM)


def test_a_missing_java_is_a_problem_and_the_exit_code_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    javas.version.cache_clear()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert clinker.main(["doctor", "--base-dir", str(tmp_path)]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("PROBLEM")]
    assert "java: JAVA_HOME is" in line
    assert "nowhere" in line


def test_a_folder_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    found = doctor.temporary_folder("spill folder", tmp_path / "gone", is_configured=True)
    assert found.state is State.PROBLEM
    assert "gone" in found.detail
    assert "[storage.spill]" in found.remedy


def test_a_folder_in_memory_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "kind", lambda _: volumes.Kind.MEMORY)
    found = doctor.temporary_folder("spill folder", tmp_path, is_configured=False)
    assert found.state is State.WARNING
    assert "in memory" in found.remedy


def test_the_spill_folder_is_the_one_of_clinker_toml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fast").mkdir()
    (tmp_path / "clinker.toml").write_text(f'[storage.spill]\ndir = "{tmp_path}/fast"\n')
    assert clinker.main(["doctor", "--base-dir", str(tmp_path)]) == 0
    assert f"spill folder: {tmp_path}/fast, " in capsys.readouterr().out


def test_mistakes_in_clinker_toml_are_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clinker.toml").write_text("[storage.spill]\ndisk = 3\n")
    assert clinker.main(["doctor", "--base-dir", str(tmp_path)]) == 1
    assert "PROBLEM  clinker.toml:" in capsys.readouterr().out


def test_a_master_that_does_not_answer_is_a_problem_within_seconds() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        found = doctor.master(f"spark://127.0.0.1:{taken.getsockname()[1]}")
    assert found.state is State.PROBLEM
    assert "does not answer" in found.detail
    assert found.remedy


def test_a_master_that_takes_connections_is_fine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = doctor.master(f"spark://127.0.0.1:{server.getsockname()[1]}")
    assert found.state is State.OK


@pytest.mark.spark
def test_a_pipeline_of_five_records_runs_and_is_removed(tmp_path: Path) -> None:
    assert doctor.run(None, tmp_path).state is State.OK
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_a_run_that_fails_is_told_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    found = doctor.run(None, tmp_path)
    assert found.state is State.PROBLEM
    assert "JAVA_HOME" in found.remedy


def test_nothing_is_left_in_the_folder_that_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, usual = tmp_path / "tried", tmp_path / "usual"
    tried.mkdir()
    usual.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(usual))
    monkeypatch.setattr(volumes, "kind", lambda folder: volumes.Kind.OTHER)  # tests may have theirs in memory
    assert doctor.temporary_folder("temporary folder", tried, is_configured=False).state is State.OK
    assert (list(tried.iterdir()), list(usual.iterdir())) == ([], [])
