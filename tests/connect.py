"""A Spark Connect server on loopback, started by hand and stopped again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from clinker_provider import launcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_TIMEOUT_S = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start a server with an embedded Spark; gives its `sc://` address."""
    home = launcher.pyspark_home()
    assert home is not None, "pyspark is not installed with its jars"
    port = free_port()
    # The server's workers must get the engine as an artifact: nothing of this checkout is on their path.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [
        str(home / "bin" / "spark-submit"), "--class", SERVER_CLASS, "--master", "local[2]",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", "spark.ui.enabled=false", "spark-internal",
    ]  # fmt: skip
    log = folder / "connect.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environ, cwd=folder, stdout=file, stderr=file)
    try:
        _wait(process, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        family = list(psutil.Process(process.pid).children(recursive=True)) if process.poll() is None else []
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        for child in family:
            if child.is_running():
                child.kill()


def listening(address: str) -> list[psutil.Process]:
    """The server's own process, behind the scripts that start it."""
    port = int(address.rpartition(":")[2])
    return [
        psutil.Process(each.pid)
        for each in psutil.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN and each.laddr.port == port and each.pid
    ]


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended: {log.read_text()[-2000:]}")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.3)
    raise AssertionError(f"the server does not listen: {log.read_text()[-2000:]}")
