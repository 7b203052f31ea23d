"""What is around a run and goes wrong: Java, other runs in the folder, bugs, readers that went away.

Everything goes through the command line, with jobs run in this process.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.execute.run import work
from spark_jobs.execute.spark import session
from spark_jobs.execute.spark.embedded import java
from spark_jobs.execute.tasks import stage
from spark_jobs.scan import files
from tests.execute import pipelines, without_spark
from tests.execute.bad_runs import GOOD, LIMITED, PIPELINE, prepare, run


def fake_java(folder: Path, text: str) -> Path:
    path = folder / "java-home" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    path.chmod(0o755)
    return folder / "java-home"


@pytest.fixture
def really_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is opened as in life, as far as Java lets it; none may be there already."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(session, "open_session", session_open)
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    java.version.cache_clear()


session_open = session.open_session


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (None, "no java was found"),
        ('openjdk version "11.0.2" 2019-01-15', 'is version "11.0.2"'),
        ('java version "1.8.0_401"', 'is version "1.8.0_401"'),
        ("no such thing", "cannot be run"),
    ],
    ids=["absent", "11", "8", "broken"],
)
def test_java(
    version: str | None, says: str, tmp_path: Path, refused: Any, really_opened: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if version:
        monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    refused(1, "error[E901]", "Java 17" if version is None else "17", says, "apt install")


def test_a_java_that_was_killed_is_asked_again(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "")
    (home / "bin" / "java").write_text(
        f"#!/bin/sh\n[ -e {tmp_path}/asked ] || {{ touch {tmp_path}/asked; kill -9 $$; }}\n"
        "echo 'openjdk version \"21.0.2\"' >&2\n"
    )
    assert java.version(str(home / "bin" / "java")) == (21, 'version "21.0.2"')


def test_a_java_that_does_not_answer_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_LIMIT_S", 0.2)
    home = fake_java(tmp_path, "")
    (home / "bin" / "java").write_text("#!/bin/sh\nexec sleep 20\n")
    assert java.version(str(home / "bin" / "java")) is None


def test_an_input_that_no_descriptor_is_left_for_is_no_fault_of_its_source(
    tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoDescriptors:
        def open_input_file(self, path: str) -> None:
            raise OSError(errno.EMFILE, f"Failed to open local file '{path}'. Detail: Too many open files")

    read_loads = stage.read_loads

    def within_a_task(*arguments: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(files, "_local", NoDescriptors)
            yield from read_loads(*arguments)

    prepare(tmp_path)
    monkeypatch.setattr(stage, "read_loads", within_a_task)
    told = refused(4, "error[E900]: ", "in/rows.csv", "raise it (ulimit -n)")
    assert "source 'rows'" not in told


# ---- two runs, and bugs ------------------------------------------------------------------------------------------


def test_two_runs_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that begins and ends while another works there leaves the other's files alone."""
    without_spark.install(monkeypatch)
    prepare(tmp_path)
    pipelines.write(tmp_path / "other", {"pipeline.yaml": PIPELINE.replace("STRATEGY", "fail_fast")})
    (tmp_path / "other/in").symlink_to(tmp_path / "in")
    (tmp_path / "other/out").symlink_to(tmp_path / "out")
    both = (tmp_path / "other/pipeline.yaml").read_text().replace("out/copy.csv", "out/second.csv")
    (tmp_path / "other/pipeline.yaml").write_text(both)
    all_jobs = work.Work.all_jobs
    inside: list[int] = []

    def meanwhile(jobs: work.Work, spark: Any) -> None:
        all_jobs(jobs, spark)
        if not inside:
            inside.append(-1)
            inside.append(run(tmp_path / "other", "--quiet", "--base-dir", str(tmp_path)))

    monkeypatch.setattr(work.Work, "all_jobs", meanwhile)
    assert run(tmp_path, "--force", "--quiet") == 0
    assert inside == [-1, 0]
    assert pipelines.outputs(tmp_path) == {"copy.csv": GOOD.encode(), "second.csv": GOOD.encode()}


def test_a_bug_is_told_with_its_place_and_has_a_traceback(
    tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path)

    def bug(self: Any) -> None:
        raise KeyError("nobody knows")

    monkeypatch.setattr(work.Work, "_reads_rows", bug)
    refused(
        4, "error[E905]: internal error: KeyError: 'nobody knows' (spark_jobs/execute/run/work.py:", "--log-level debug"
    )
    assert run(tmp_path, "--force", "--log-level", "debug") == 4
    told = capsys.readouterr().err
    assert "Traceback (most recent call last):" in told
    assert "in bug" in told


def closed_pipe(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run with a standard output that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False, **options
        )
    finally:
        os.close(writing)


@pytest.mark.slow
def test_the_exit_status_stands_when_nobody_reads(tmp_path: Path) -> None:
    prepare(tmp_path, GOOD + "nothing,x\n", "continue")
    script = LIMITED.replace("(200_000, 200_000)", "(-1, -1)")
    ended = closed_pipe(
        [sys.executable, "-c", script, str(tmp_path / "pipeline.yaml")], cwd=Path(__file__).resolve().parents[3]
    )
    assert (ended.returncode, ended.stderr) == (2, "")
    assert pipelines.outputs(tmp_path)["copy.csv"] == GOOD.encode()
