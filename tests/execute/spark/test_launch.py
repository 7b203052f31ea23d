"""A JVM that starts before anybody asks for it, with a program in its place."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import pipeline
from spark_jobs.execute.spark import session
from spark_jobs.execute.spark.embedded import java, launch
from spark_jobs.plan.options import RunOptions
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = {"spark.app.name": "a b", "spark.driver.memory": "1g"}


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a Spark whose spark-submit is a shell script."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)

    def make(script: str) -> None:
        command = tmp_path / "spark" / "bin" / "spark-submit"
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)

    make("echo $$ > $SPARK_HOME/process; exec sleep 60")
    return make


def process_of(home: Path) -> int:
    """The process of the script, which tells it."""
    told = home / "spark" / "process"
    return int(until(lambda: told.exists() and told.read_text().strip()))


def test_it_is_launched_as_pyspark_does(
    spark_home: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name 'x y' pyspark-shell")
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    told = tmp_path / "told"
    spark_home(f'(for each; do echo "$each"; done; env) > {told}.partial; mv {told}.partial {told}; exec sleep 60')
    folder = tmp_path / "folder"
    folder.mkdir()
    begun = launch.Launch(SETTINGS, str(folder))
    assert until(told.exists)
    lines = told.read_text().splitlines()
    begun.end()
    assert lines[:7] == [
        "--conf", "spark.app.name=a b", "--conf", "spark.driver.memory=1g", "--name", "x y", "pyspark-shell"
    ]  # fmt: skip
    environment = dict(line.split("=", 1) for line in lines[7:] if "=" in line)
    assert "SPARK_REMOTE" not in environment
    assert environment["SPARK_CONNECT_MODE"] == "0"
    assert Path(environment["_PYSPARK_DRIVER_CONN_INFO_PATH"]).is_relative_to(folder)
    assert list(folder.iterdir()) == [], "what it was to say is not waited for any more"


def test_a_secret_is_in_no_command_line(
    spark_home: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    spark_home(f'(for each; do echo "$each"; done; cat "$2") > {told}.partial; mv {told}.partial {told}; exec sleep 60')
    begun = launch.Launch({**SETTINGS, "spark.authenticate.secret": "a = ü:\\"}, str(tmp_path))
    assert until(told.exists)
    lines = told.read_text().splitlines()
    assert (lines[0], lines[2]) == ("--properties-file", "--load-spark-defaults")
    assert lines[3:7] == ["--conf", "spark.app.name=a b", "--conf", "spark.driver.memory=1g"]
    assert lines[8:] == [r"spark.authenticate.secret=a\u0020\u003d\u0020\u00fc\u003a\u005c"]
    assert Path(lines[1]).stat().st_mode & 0o777 == 0o600
    begun.end()
    assert not Path(lines[1]).exists()


def test_what_a_jvm_says_is_kept_for_its_end(
    spark_home: Callable[[str], None], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spark_home("echo 'WARNING: Using incubator modules: x'; echo 'Error: Invalid heap: 1q' >&2; exit 1")
    begun = launch.Launch(SETTINGS, str(tmp_path))
    with pytest.raises(launch.NotStartedError, match=r"^Invalid heap: 1q$"):
        begun.gateway()
    assert capfd.readouterr() == ("", "")
    begun = launch.Launch(SETTINGS, str(tmp_path), is_shown=True)
    with pytest.raises(launch.NotStartedError, match=r"^exit status 1$"):
        begun.gateway()
    assert "incubator" in "".join(capfd.readouterr())


def test_a_jvm_that_lives_and_cannot_be_reached_is_not_waited_for(
    spark_home: Callable[[str], None], tmp_path: Path
) -> None:
    failed = 'Exception in thread "main" java.io.IOException: No space left on device'
    spark_home(f"echo $$ > $SPARK_HOME/process; echo '{failed}' >&2; exec sleep 60")
    begun = launch.Launch(SETTINGS, str(tmp_path))
    with pytest.raises(launch.NotStartedError, match=r"^No space left on device$"):
        begun.gateway()
    with pytest.raises(ProcessLookupError):
        os.kill(process_of(tmp_path), 0)


def test_a_jvm_that_says_nothing_is_not_waited_for_for_ever(
    spark_home: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_LIMIT_S", 0.5)
    begun = launch.Launch(SETTINGS, str(tmp_path))
    with pytest.raises(launch.NotStartedError, match="it has not answered for"):
        begun.gateway()


def test_a_jvm_that_is_killed_is_said_to_be(spark_home: Callable[[str], None], tmp_path: Path) -> None:
    spark_home("kill -9 $$")
    begun = launch.Launch(SETTINGS, str(tmp_path))
    with pytest.raises(launch.NotStartedError, match=r"^it was ended by signal 9, SIGKILL$"):
        begun.gateway()


@pytest.mark.parametrize("is_embedded", [True, False])
def test_a_driver_of_a_cluster_keeps_its_files_to_itself(
    is_embedded: bool, spark_home: Callable[[str], None], tmp_path: Path
) -> None:
    told = tmp_path / "told"
    spark_home(f'(umask; echo "$SPARK_LOCAL_IP") > {told}.partial; mv {told}.partial {told}; exec sleep 60')
    begun = launch.Launch(SETTINGS, str(tmp_path) if is_embedded else None)
    assert until(told.exists)
    begun.end()
    # An embedded one starts the workers, which write files of users; its own are in a folder that is closed to others.
    own = subprocess.run(["sh", "-c", "umask"], capture_output=True, text=True, check=True).stdout.strip()
    assert told.read_text().split("\n")[:2] == ([own, "127.0.0.1"] if is_embedded else ["0077", ""])


def test_it_ends_when_nobody_asks_for_it(spark_home: Callable[[str], None], tmp_path: Path) -> None:
    begun = launch.Launch(SETTINGS, str(tmp_path))
    process = process_of(tmp_path)
    begun.end()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["spark"]


def test_a_jvm_that_does_not_start_is_an_error(spark_home: Callable[[str], None], tmp_path: Path) -> None:
    spark_home("exit 7")
    begun = launch.Launch(SETTINGS, str(tmp_path))
    with pytest.raises(launch.NotStartedError, match="exit status 7"):
        begun.gateway()
    assert [each.name for each in tmp_path.iterdir()] == ["spark"]


def test_where_there_is_no_spark_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    with pytest.raises(FileNotFoundError, match="spark-submit"):
        launch.Launch(SETTINGS, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_spark_that_may_not_be_started_leaves_nothing_either(
    spark_home: Callable[[str], None], tmp_path: Path
) -> None:
    (tmp_path / "spark" / "bin" / "spark-submit").chmod(0o600)
    with pytest.raises(PermissionError, match="spark-submit"):
        launch.Launch(SETTINGS, str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["spark"]


def test_no_python_runs_between_fork_and_exec(
    spark_home: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with threads must not: what another thread holds is held for ever in the child."""
    asked: list[Any] = []
    real = subprocess.Popen

    def noted(*args: Any, **kwargs: Any) -> Any:
        asked.append(kwargs)
        return real(*args, **kwargs)

    monkeypatch.setattr(launch.subprocess, "Popen", noted)
    launch.Launch(SETTINGS, str(tmp_path)).end()
    assert [kwargs.get("preexec_fn") for kwargs in asked] == [None]


def test_one_that_has_begun_is_taken_by_who_needs_the_same(spark_home: Callable[[str], None], tmp_path: Path) -> None:
    early = launch.Early()
    assert early.taken(SETTINGS) is None
    early.begin(lambda: launch.Launch(SETTINGS, str(tmp_path)))
    taken = early.taken(dict(SETTINGS))
    assert taken is not None
    assert early.taken(SETTINGS) is None, "it is one"
    taken.end()


def test_one_with_other_settings_is_ended(spark_home: Callable[[str], None], tmp_path: Path) -> None:
    early = launch.Early()
    early.begin(lambda: launch.Launch(SETTINGS, str(tmp_path)))
    process = process_of(tmp_path)
    assert early.taken({**SETTINGS, "spark.driver.memory": "2g"}) is None
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_one_that_cannot_begin_is_left_to_who_asks_for_a_session(tmp_path: Path) -> None:
    def fail() -> launch.Launch:
        raise FileNotFoundError("spark-submit")

    early = launch.Early()
    early.begin(fail)
    assert early.taken(SETTINGS) is None


def test_ctrl_c_is_not_for_it(spark_home: Callable[[str], None], tmp_path: Path) -> None:
    begun = launch.Launch(SETTINGS, str(tmp_path))
    process = process_of(tmp_path)
    os.kill(process, signal.SIGINT)
    time.sleep(0.1)
    os.kill(process, 0)
    begun.end()


def test_a_jvm_of_this_process_is_none_of_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(launch, "_own_ports", {"4711"})
    assert not launch.is_submitted()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert not launch.is_submitted()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4712")
    assert launch.is_submitted()


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """The options of the runs for which a JVM has been launched early; there is a pipeline."""
    asked: list[RunOptions] = []
    monkeypatch.setattr(session, "begin", asked.append)
    (tmp_path / "pipeline.yaml").touch()
    return asked


@pytest.mark.parametrize(
    ("settings", "options", "expected"),
    [
        (None, {}, True),
        (None, {"dry_run": True, "preview": 3}, True),
        (None, {"dry_run": True}, False),
        (None, {"explain": "text"}, False),
        ('[channels]\ndir = "c"\n', {}, True),
        ('[storage.spill]\ndir = "s"\n', {}, False),
        ('storage = {spill = {dir = "s"}}\n', {}, False),
    ],
)
def test_it_begins_where_a_run_will_need_it(
    settings: str | None, options: dict[str, Any], expected: bool, begun: list[RunOptions], tmp_path: Path
) -> None:
    if settings is not None:
        (tmp_path / "clinker.toml").write_text(settings)
    pipeline._begin(tmp_path / "pipeline.yaml", RunOptions(**options))
    assert bool(begun) is expected


def test_it_does_not_begin_where_there_is_no_pipeline(begun: list[RunOptions], tmp_path: Path) -> None:
    pipeline._begin(tmp_path / "other.yaml", RunOptions())
    assert begun == []


def test_a_machine_without_java_is_told_of_when_a_session_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "problem", lambda: "there is no java")
    monkeypatch.setattr(launch, "EARLY", launch.Early())
    monkeypatch.setattr(session.sys, "modules", {})
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    session.begin(RunOptions())
    assert launch.EARLY.taken({}) is None
