"""The process that waits to be what workers are forked from, with a test in Spark's place."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from spark_jobs.execute.spark import shipping
from spark_jobs.execute.spark.embedded import prefork

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {shipping.DAEMON_SETTING: shipping.DAEMON}
#: What Spark has in the environment of the process that it starts.
STARTED = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES", "SPARK_REUSE_WORKER": "1"}
_LIMIT_S = 60


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short name."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr(prefork, "_waiting", [])
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)
    for process in prefork._waiting:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(_LIMIT_S)


@contextlib.contextmanager
def started(folder: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """What Spark starts when a task needs a worker."""
    place = folder / "place"
    place.mkdir(exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-m", shipping.DAEMON, "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=place,
        env={
            **os.environ,
            **STARTED,
            "PYTHONPATH": shipping.root(),
            prefork.VARIABLE: prefork.address(folder),
            **environment,
        },
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(_LIMIT_S)


@dataclass
class Worker:
    """A worker that is forked for a task."""

    family: list[int]
    place: str


def worker_of(process: subprocess.Popen[bytes]) -> Worker:
    """What there is to see of a worker while it waits to be told what to do."""
    assert process.stdout is not None
    port = int.from_bytes(process.stdout.read(4))
    with socket.create_connection(("127.0.0.1", port), timeout=_LIMIT_S) as connection:
        found = psutil.Process(int.from_bytes(connection.recv(4)))
        return Worker([each.pid for each in found.parents()], found.cwd())


def test_workers_are_forked_from_the_process_that_waits(folder: Path) -> None:
    prefork.begin(folder, SETTINGS)
    [waiting] = prefork._waiting
    with started(folder, FOR_TASKS="yes") as process:
        worker = worker_of(process)
        assert waiting.pid in worker.family
        assert process.pid not in worker.family
        assert worker.place == str(folder.resolve() / "place")
        assert not Path(prefork.address(folder)).exists()
    waiting.wait(_LIMIT_S)


#: Waits, and tells what it has become.
_WAITS = """
import os, sys
from spark_jobs.execute.spark.embedded import prefork
took = prefork.take_over(int(sys.argv[1]))
given, kept = map(os.environ.get, ("GIVEN", "KEPT"))
print(took, given, kept, sys.argv[1:], os.getcwd(), file=sys.stderr if took else sys.stdout)
"""
#: Is in its place as far as Spark can see.
_STANDS_IN = "from spark_jobs.execute.spark.embedded import prefork; raise SystemExit(3 if prefork.stand_in() else 4)"


def waits(folder: Path) -> subprocess.Popen[str]:
    """A process that waits, as `prefork.begin` starts it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(prefork.address(folder))
        listener.listen(1)
        return subprocess.Popen(
            [sys.executable, "-c", _WAITS, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": shipping.root(), "KEPT": "no"},
            pass_fds=(listener.fileno(),),
            text=True,
        )


def test_it_becomes_what_the_other_was_started_to_be(folder: Path) -> None:
    place = folder / "place"
    place.mkdir()
    with waits(folder) as waiting:
        told = subprocess.run(
            [sys.executable, "-c", _STANDS_IN, "an", "argument"],
            env={
                **os.environ,
                "PYTHONPATH": shipping.root(),
                prefork.VARIABLE: prefork.address(folder),
                "GIVEN": "\udcff",
            },
            cwd=place,
            capture_output=True,
            timeout=_LIMIT_S,
        )
        assert waiting.wait(_LIMIT_S) == 0
        assert waiting.stdout is not None
        assert waiting.stdout.read() == "", "its own streams are not used any more"
    assert told.returncode == 3
    assert told.stderr.decode().split(" ", 1) == ["True", f"\\udcff None ['an', 'argument'] {place.resolve()}\n"]


def test_it_becomes_nothing_where_nothing_is_given(folder: Path) -> None:
    with waits(folder) as waiting:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(prefork.address(folder))
        assert waiting.wait(_LIMIT_S) == 0
        assert waiting.stdout is not None
        assert waiting.stdout.read().startswith("False None no ")


def test_where_nothing_waits_spark_starts_the_real_one(folder: Path) -> None:
    with started(folder) as process:
        assert process.pid in worker_of(process).family


def test_one_that_does_not_answer_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefork, "_TIMEOUT_S", 0.1)
    monkeypatch.setenv(prefork.VARIABLE, prefork.address(folder))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(prefork.address(folder))
        listener.listen(1)
        assert not prefork.stand_in()
    assert prefork.VARIABLE not in os.environ


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "ARROW_ANY"])
def test_what_libraries_have_read_already_cannot_be_given(name: str, folder: Path) -> None:
    prefork.begin(folder, SETTINGS)
    [waiting] = prefork._waiting
    with started(folder, **{name: "7"}) as process:
        assert process.pid in worker_of(process).family
        waiting.wait(_LIMIT_S)


def test_it_ends_with_the_driver(folder: Path) -> None:
    prefork.begin(folder, SETTINGS)
    [waiting] = prefork._waiting
    assert waiting.stdin is not None
    waiting.stdin.close()
    assert waiting.wait(_LIMIT_S) == 0


@pytest.mark.parametrize("settings", [{}, {shipping.DAEMON_SETTING: "my.daemon"}])
def test_there_is_none_where_workers_come_from_elsewhere(settings: dict[str, str], folder: Path) -> None:
    prefork.begin(folder, settings)
    assert prefork._waiting == []


def test_there_is_none_for_another_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    prefork.begin(folder, SETTINGS)
    assert prefork._waiting == []


def test_there_is_none_where_its_address_would_be_too_long(folder: Path) -> None:
    deep = folder / ("a" * 100)
    deep.mkdir()
    prefork.begin(deep, SETTINGS)
    assert prefork._waiting == []
    assert list(deep.iterdir()) == []
