"""`clinker run --master spark://…`: what executors get, and what becomes of a cluster that gives none, or goes away."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests import cluster
from tests.execute.spark.test_signals import names, prepare
from tests.waiting import until

if TYPE_CHECKING:
    from tests.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[3]
SITE = Path(psutil.__file__).resolve().parents[1]


def start(folder: Path, master: str, *options: str, **variables: str) -> subprocess.Popen[str]:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    return subprocess.Popen(
        [
            sys.executable, "-m", "spark_jobs", "run", "pipeline.yaml", "--force", "--master", master,
            "--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1", *options,
        ],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **variables},
    )  # fmt: skip


def ended(process: subprocess.Popen[str], timeout_s: float = 240) -> tuple[int, str]:
    """Exit status and what was told as an error; nothing is left running."""
    try:
        _, err = process.communicate(timeout=timeout_s)
    finally:
        process.kill()
    return process.returncode, err


def python_with(folder: Path, *paths: Path) -> str:
    """A Python that has the standard library and what is named."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={":".join(map(str, paths))}:$PYTHONPATH exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return str(script)


def published(folder: Path, rows: int) -> None:
    copy = (folder / "out/copy.csv").read_text()
    assert copy == "a,b,c\n" + "".join(f"{i},text {i % 1000},TEXT {i % 1000}\n" for i in range(rows))
    assert (folder / "new/sums.csv").exists()


def test_executors_without_the_engine_get_it(tmp_path: Path, spark_cluster: Cluster) -> None:
    prepare(tmp_path, 3000)
    (tmp_path / "bin").mkdir()
    python = python_with(tmp_path / "bin", SITE)
    code, err = ended(start(tmp_path, spark_cluster.master, "--conf", f"spark.pyspark.python={python}"))
    assert code == 0, err
    published(tmp_path, 3000)


def test_executors_without_arrow_are_told(tmp_path: Path, spark_cluster: Cluster) -> None:
    prepare(tmp_path, 3)
    (tmp_path / "bin").mkdir()
    code, err = ended(start(tmp_path, spark_cluster.master, PYSPARK_PYTHON=python_with(tmp_path / "bin")))
    assert code == 4, err
    # Whichever is asked for first.
    assert re.search(r"error\[E904\]: the Python of a worker has no module '(pyarrow|numpy)'; install ", err), err
    assert (tmp_path / "out/copy.csv").read_text() == "old\n"


def test_a_cluster_whose_workers_are_too_small(tmp_path: Path, spark_cluster: Cluster) -> None:
    prepare(tmp_path)
    options = ["--conf", "spark.executor.memory=9g", "--conf", "spark.clinker.executorsTimeout=20s"]
    code, err = ended(start(tmp_path, spark_cluster.master, *options))
    assert code == 4, err
    told = f"{spark_cluster.master} has given no executor: one or more wanted, with 9g of memory"
    assert f"s {told}" in err.split("error[E904]")[0], "the warning comes before the end"
    assert told in err.split("error[E904]")[1]
    assert names(tmp_path) == ["out", "out/copy.csv", "pipeline.yaml", "rows.csv"]


def test_executors_that_never_live(tmp_path: Path, spark_cluster: Cluster) -> None:
    prepare(tmp_path)
    options = ["--conf", "spark.executor.extraJavaOptions=-XX:+UseSerialGC -XX:+UseG1GC"]
    options += ["--conf", "spark.clinker.executorsTimeout=40s"]
    code, err = ended(start(tmp_path, spark_cluster.master, *options))
    assert code == 4, err
    assert "error[E904]: " in err
    assert "executor" in err or "the application was ended" in err
    assert (tmp_path / "out/copy.csv").read_text() == "old\n"


def test_a_run_that_waits_for_a_master_is_stopped_within_seconds(tmp_path: Path) -> None:
    prepare(tmp_path)
    process = start(tmp_path, "spark://127.0.0.1:1")
    time.sleep(25)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, err = ended(process)
    assert (code, time.monotonic() - began < 30) == (130, True), err
    assert (tmp_path / "out/copy.csv").read_text() == "old\n"


def test_a_master_that_dies_during_a_run_is_not_needed_any_more(tmp_path: Path) -> None:
    """Executors are there, and talk to the driver."""
    home, folder = tmp_path / "cluster", tmp_path / "run"
    home.mkdir()
    folder.mkdir()
    prepare(folder, 200_000)
    with cluster.standalone(home, workers=1, cores=2) as found:
        process = start(folder, found.master, CLINKER_SPLIT_BYTES="65536")
        try:
            assert until(lambda: any(folder.glob("out/.clinker-*/*.part")) or process.poll() is not None, 180)
            assert process.poll() is None, "the run ended before the master could be killed"
            psutil.Process(found.process_ids[0]).kill()
        finally:
            code, err = ended(process)
    assert code == 0, err
    published(folder, 200_000)


def test_a_cluster_with_a_secret_takes_a_driver_that_knows_it(tmp_path: Path) -> None:
    home, folder = tmp_path / "cluster", tmp_path / "run"
    settings = home / "conf"
    settings.mkdir(parents=True)
    folder.mkdir()
    secret = "known-to-the-cluster"
    (settings / "spark-defaults.conf").write_text(f"spark.authenticate true\nspark.authenticate.secret {secret}\n")
    prepare(folder, 1_000)
    with cluster.standalone(home, workers=1, cores=2, conf_dir=settings) as found:
        process = start(folder, found.master, SPARK_CONF_DIR=str(settings))
        seen = set()
        while process.poll() is None:
            seen |= {each.pid for each in psutil.process_iter(["cmdline"]) if secret in str(each.info["cmdline"])}
            time.sleep(0.2)
        code, err = ended(process)
    assert code == 0, err
    published(folder, 1_000)
    assert seen == set()
    assert secret not in err
    assert "spark.authenticate" not in err, "there is nothing to warn of"
