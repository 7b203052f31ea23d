"""A real Spark standalone cluster on loopback: a master and workers, started by hand and stopped again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from clinker_provider import launcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
START_TIMEOUT_S = 240
MASTER_UI = r"Bound MasterWebUI to \S+, and started at http://[^:]+:(\d+)"


@dataclass(frozen=True)
class Cluster:
    """A running cluster: the master's URL for `--master`, and the URL of its state."""

    master: str
    state_url: str
    process_ids: tuple[int, ...]

    def state(self) -> dict[str, Any]:
        """The state of the master: `aliveworkers`, `activeapps`, `completedapps`, …"""
        with urllib.request.urlopen(f"{self.state_url}/json/", timeout=10) as answer:
            return dict(json.load(answer))


@contextmanager
def standalone(
    folder: Path,
    *,
    workers: int = 2,
    cores: int = 1,
    memory: str = "1g",
    conf_dir: Path | None = None,
    around_workers: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Start a cluster on free ports of 127.0.0.1, wait until its workers have registered, stop it at the end.

    Args:
        folder: for logs and the workers' folders.
        workers: number of workers.
        cores: cores of each.
        memory: memory of each.
        conf_dir: the folder of its settings.
        around_workers: a command that starts each worker, whose own command follows it.
        environment: environment variables of its processes, in addition to the variables of this one.
    """
    home = launcher.pyspark_home()
    assert home is not None, "pyspark is not installed with its jars"
    environ = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **({"SPARK_CONF_DIR": str(conf_dir)} if conf_dir else {}),
        **(environment or {}),
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str, around: Sequence[str] = ()) -> Path:
        log = folder / f"{name}.log"
        with log.open("wb") as file:
            command = [*around, str(home / "bin" / "spark-class"), *arguments]
            started.append(subprocess.Popen(command, env=environ, cwd=folder, stdout=file, stderr=file))
        return log

    try:
        # Port 0 lets the system choose a port, which the log names.
        log = start("master", MASTER_CLASS, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = _wait_for(log, started[0], r"Starting Spark master at (spark://\S+)")
        port = _wait_for(log, started[0], MASTER_UI)
        state_url = f"http://127.0.0.1:{port}"
        logs = []
        for number in range(workers):
            work_dir = folder / f"worker-{number}"
            arguments = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--work-dir", str(work_dir))
            size = ("--cores", str(cores), "--memory", memory)
            command = (WORKER_CLASS, *arguments, *size, master)
            logs.append(start(f"worker-{number}", *command, around=around_workers))
        for log, process in zip(logs, started[1:], strict=True):
            _wait_for(log, process, r"Successfully registered with master (\S+)")
        yield Cluster(master, state_url, tuple(process.pid for process in started))
    finally:
        _stop(started)


def _wait_for(log: Path, process: subprocess.Popen[bytes], pattern: str) -> str:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if found := re.search(pattern, text):
            return next(group for group in found.groups() if group)
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"no {pattern!r} in {log}:\n{log.read_text(errors='replace')[-4000:]}")


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    # Workers first: a worker without a master waits for it to come back. Executors are children of workers.
    for process in reversed(processes):
        if process.poll() is None:
            tree = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _, alive = psutil.wait_procs(tree, timeout=5)
            for child in alive:
                child.kill()


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster of two workers with a core each, for all tests that ask for it."""
    with standalone(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
