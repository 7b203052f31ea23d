"""A run that is told to stop: exit 130, nothing published, no process and no file left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from spark_jobs import result
from spark_jobs.cli import clinker
from spark_jobs.disk import durable
from spark_jobs.execute import interrupts
from spark_jobs.execute.delivery import outputs, targets
from spark_jobs.execute.delivery.local import draft_folder, joining
from spark_jobs.execute.run import metrics, work
from tests import connect
from tests.execute import pipelines, without_spark
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[3]
PIPELINE = """
pipeline: {name: long}
nodes:
  - type: source
    name: rows
    config: {name: rows, type: csv, path: rows.csv, schema: [{name: a, type: int}, {name: b, type: string}]}
  - {type: transform, name: more, input: rows, config: {cxl: "emit c = b.upper()"}}
  - {type: aggregate, name: all, input: more, config: {group_by: [b], cxl: "emit n = count(*)"}}
  - {type: output, name: copy, input: more, config: {name: copy, type: csv, path: out/copy.csv}}
  - {type: output, name: sums, input: all, config: {name: sums, type: csv, path: new/sums.csv}}
"""
_PARTS = f"out/{draft_folder.PREFIX}*/*.part"
SIGNALS = [signal.SIGINT, signal.SIGTERM]


def prepare(folder: Path, rows: int = 3) -> None:
    data = "a,b\n" + "".join(f"{i},text {i % 1000}\n" for i in range(rows))
    pipelines.write(folder, {"pipeline.yaml": PIPELINE, "rows.csv": data, "out/copy.csv": "old\n"})


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def raising(number: int, then: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gets a signal before it does its work; a second one comes at once, as schedulers do."""

    def signalled(*arguments: Any, **options: Any) -> Any:
        signal.raise_signal(number)
        signal.raise_signal(number)
        return then(*arguments, **options)

    return signalled


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_spark.install(monkeypatch)
    prepare(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("where", "name"),
    [(targets, "resolve"), (work.Work, "all_jobs"), (outputs, "assemble"), (joining, "join")],
)
def test_before_the_renames_nothing_is_published(
    where: Any,
    name: str,
    number: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = names(folder)
    monkeypatch.setattr(where, name, raising(number, getattr(where, name)))
    ended = clinker.main(["run", str(folder / "pipeline.yaml"), "--force"])
    told = capsys.readouterr()
    assert (ended, told.out) == (130, "")
    assert "interrupted" in told.err
    assert "Traceback" not in told.err
    assert names(folder) == before
    assert (folder / "out/copy.csv").read_text() == "old\n"


def test_an_interrupt_while_a_class_is_made_is_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("spark_jobs.plan.load", interrupted)
    assert clinker.main(["run", str(folder / "pipeline.yaml"), "--force"]) == 130
    told = capsys.readouterr()
    assert "interrupted" in told.err
    assert "Traceback" not in told.err


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("where", "name"),
    [(durable, "_sync"), (os, "replace"), (draft_folder, "_remove"), (metrics, "conclude"), (result, "write")],
)
def test_after_the_first_rename_the_run_has_succeeded(
    where: Any, name: str, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt among the renames would leave some files new and some old."""
    called: list[str] = []
    original = getattr(where, name)

    def signalled(*arguments: Any, **options: Any) -> Any:
        # The parts of an output are renamed as well, before anything is published.
        if name != "replace" or str(arguments[1]).endswith("sums.csv"):
            called.append(name)
            signal.raise_signal(number)
        return original(*arguments, **options)

    monkeypatch.setattr(where, name, signalled)
    ended = clinker.main(["run", str(folder / "pipeline.yaml"), "--force", "--work-dir", str(folder / "work")])
    assert called
    assert ended == 0
    assert (folder / "out/copy.csv").read_text().startswith("a,b,c\n0,text 0,TEXT 0\n")
    assert (folder / "new/sums.csv").exists()
    assert not [name for name in names(folder) if draft_folder.PREFIX in name]


def test_signals_are_as_before_after_a_run(folder: Path) -> None:
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    assert clinker.main(["run", str(folder / "pipeline.yaml"), "--force", "--quiet"]) == 0
    assert {number: signal.getsignal(number) for number in interrupts.SIGNALS} == before


def test_what_a_process_was_started_to_ignore_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.raise_on_signal():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # the second one is passed over
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_signal_that_python_drops_is_heard_by_whoever_waits_for_a_job() -> None:
    """What is raised in a finalizer goes nowhere, and no second signal would be heard."""

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with interrupts.raise_on_signal():
        hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        try:
            Finalized()
        finally:
            sys.unraisablehook = hook
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    interrupts.check()


def test_other_threads_leave_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def elsewhere() -> None:
        with interrupts.raise_on_signal(), interrupts.ignore_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


# ---- with Spark --------------------------------------------------------------------------------------------------


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """`clinker run` in a session of its own, over enough splits to be met at work."""
    prepare(folder, 400_000)
    temporary(folder).mkdir(exist_ok=True)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "CLINKER_SPLIT_BYTES": "65536", "SPARK_LOCAL_IP": "127.0.0.1"}
    environ["TMPDIR"] = str(temporary(folder))
    return subprocess.Popen(
        [sys.executable, "-m", "spark_jobs", "run", "pipeline.yaml", "--force", *options],
        cwd=folder, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def temporary(folder: Path) -> Path:
    """Where a run in a folder makes its temporary files."""
    return folder.with_name(f"{folder.name}-temporary")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run with a JVM of its own."""
    process = start(tmp_path, "--threads", "2")
    yield process
    for member in family(process):
        member.kill()
    process.communicate()


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes of the run's session that are there now."""
    found = []
    for each in psutil.process_iter():
        try:
            if os.getsid(each.pid) == process.pid and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def is_launching(process: subprocess.Popen[str]) -> bool:
    """Whether PySpark has begun to start the JVM."""
    found = []
    for each in family(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += each.cmdline()
    return any(word.endswith(("/spark-submit", "/spark-class")) or "org.apache.spark" in word for word in found)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("moment", ["the JVM starts", "tasks write"])
def test_a_run_at_work_is_stopped(moment: str, number: int, started: subprocess.Popen[str], tmp_path: Path) -> None:
    if moment == "tasks write":
        assert until(lambda: any(tmp_path.glob(_PARTS)) or started.poll() is not None)
    else:
        assert until(lambda: is_launching(started) or started.poll() is not None)
    assert started.poll() is None, "the run ended before it could be stopped"
    started.send_signal(number)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, err
    assert out == ""
    assert "error[interrupted]" in err
    assert "Traceback" not in err
    assert names(tmp_path) == ["out", "out/copy.csv", "pipeline.yaml", "rows.csv"]
    assert (tmp_path / "out/copy.csv").read_text() == "old\n"
    assert until(lambda: not family(started), 20), [each.cmdline() for each in family(started)]
    assert names(tmp_path) == ["out", "out/copy.csv", "pipeline.yaml", "rows.csv"]
    assert names(temporary(tmp_path)) == []


@pytest.mark.spark
@pytest.mark.slow
def test_a_jvm_that_is_killed_ends_the_run_in_words(started: subprocess.Popen[str], tmp_path: Path) -> None:
    assert until(lambda: any(tmp_path.glob(_PARTS)) or started.poll() is not None)
    (jvm,) = [each for each in family(started) if "org.apache.spark.deploy.SparkSubmit" in each.cmdline()]
    jvm.kill()
    out, err = started.communicate(timeout=60)
    assert (started.returncode, out) == (4, ""), err
    assert "error[E904]: " in err
    assert "its JVM has ended" in err
    assert "Traceback" not in err
    assert names(tmp_path) == ["out", "out/copy.csv", "pipeline.yaml", "rows.csv"]
    assert until(lambda: not family(started), 20), [each.cmdline() for each in family(started)]


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_on_a_server_is_stopped_there_too(tmp_path: Path) -> None:
    """The server lives on; the jobs of the run do not, and what their tasks still write finds no folder."""
    folder, home = tmp_path / "run", tmp_path / "server"
    folder.mkdir()
    home.mkdir()
    with connect.server(home) as address:
        process = start(folder, "--remote", address)
        try:
            assert until(lambda: any(folder.glob(_PARTS)) or process.poll() is not None)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert (process.returncode, out) == (130, ""), err
        assert "Traceback" not in err
        time.sleep(2)
        assert names(folder) == ["out", "out/copy.csv", "pipeline.yaml", "rows.csv"]
        again = start(folder, "--remote", address)
        out, err = again.communicate(timeout=120)
        assert again.returncode == 0, err
