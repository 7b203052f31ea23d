"""Runs in a warm driver, with its JVM: the same files as in a process of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from spark_jobs.cli.warm import client, drivers
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SLOW = """
pipeline: {name: long}
nodes:
  - {type: source, name: rows, config: {type: csv, path: rows.csv, schema: {a: int, b: string}}}
  - {type: aggregate, name: sums, input: rows, config: {group_by: [a], cxl: "emit n = count(*)"}}
  - {type: output, name: out, input: sums, config: {type: csv, path: out.csv}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="warm") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        monkeypatch.setattr(drivers, "_PASSING", drivers._PASSING | {"PYTEST_CURRENT_TEST"})
        shutil.copytree(ROOT / "examples" / "orders", tmp_path / "orders", ignore=shutil.ignore_patterns("output"))
        monkeypatch.chdir(tmp_path / "orders")
        yield tmp_path / "orders"
        ended = [state.pid for driver, state in drivers.alive() if client.stop(driver)]
        assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in ended)), ended


def clinker(*arguments: str, warm: bool = True) -> subprocess.Popen[str]:
    environment = {**os.environ, client.VARIABLE: str(int(warm))}
    del environment["PYTEST_CURRENT_TEST"]
    code = "import sys; from spark_jobs.cli import clinker; clinker.end_with(sys.argv[1:])"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def written(folder: Path) -> dict[str, bytes]:
    # Each run has another id, which dead letters name.
    found = {path.name: path.read_bytes() for path in (folder / "output").iterdir() if "reject" not in path.name}
    assert len(found) == 3
    return found


@pytest.mark.spark
def test_runs_are_as_in_a_process_of_their_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = clinker("run", "pipeline.yaml", warm=False)
    summary, _ = alone.communicate()
    assert alone.returncode == 2
    expected = written(folder)
    for threads in ("1", "1", "2"):
        shutil.rmtree(folder / "output")
        warm = clinker("run", "pipeline.yaml", "--threads", threads)
        out, err = warm.communicate()
        assert (warm.returncode, out) == (2, summary), err
        assert written(folder) == expected
    monkeypatch.setenv(client.VARIABLE, "1")
    assert until(lambda: [state.runs for _, state in drivers.alive()] == [3])


@pytest.mark.spark
def test_a_signal_stops_a_run_and_the_driver_goes_on(folder: Path) -> None:
    (folder / "long.yaml").write_text(SLOW)
    with (folder / "rows.csv").open("w") as file:
        file.write("a,b\n")
        file.writelines(f"{row},text\n" for row in range(3_000_000))
    first = clinker("run", "pipeline.yaml")
    first.communicate()
    assert first.returncode == 2
    before = sorted(folder.rglob("*"))
    long = clinker("run", "long.yaml")
    assert until(lambda: any(path.name.startswith(".") for path in folder.rglob("*")) or long.poll() is not None)
    long.send_signal(signal.SIGTERM)
    _, err = long.communicate()
    assert long.returncode == 130, err
    assert sorted(folder.rglob("*")) == before
    again = clinker("run", "pipeline.yaml", "--force")
    again.communicate()
    assert again.returncode == 2
    assert until(lambda: [state.runs for _, state in drivers.alive()] == [3])


@pytest.mark.spark
def test_a_driver_without_its_jvm_serves_nobody(folder: Path) -> None:
    first = clinker("run", "pipeline.yaml")
    first.communicate()
    assert first.returncode == 2
    ((_, before),) = drivers.alive()
    (jvm,) = [each for each in psutil.Process(before.pid).children(recursive=True) if each.name() == "java"]
    jvm.kill()
    assert until(lambda: not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE)
    for _ in range(2):
        again = clinker("run", "pipeline.yaml", "--force")
        _, err = again.communicate()
        assert again.returncode == 2, err
    assert until(lambda: not Path(f"/proc/{before.pid}").exists())
