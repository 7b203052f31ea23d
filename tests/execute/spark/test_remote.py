"""The same bytes from embedded Spark, a standalone cluster, and a Connect server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clinker_provider import launcher
from tests import connect
from tests.execute import correlated_runs, pipelines
from tests.execute.tasks.test_splits import PIPELINE, customers, orders, without_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[3]


#: Its runs are merged by tasks: they are larger than a split.
SORTED = """
  - type: output
    name: in_order
    input: priced
    config:
      {name: in_order, type: csv, path: out/in_order.csv, sort_order: [customer, gross], split: {max_records: 150}}
"""


def plain(folder: Path) -> str:
    files = {
        "pipeline.yaml": PIPELINE.replace("nodes:\n", f"nodes:{SORTED}", 1),
        "orders.csv": orders(400, "\n", final=True, bom=False),
        "customers.csv": customers(100),
    }
    pipelines.write(folder, files)
    return "orders.csv"


def correlated(folder: Path) -> str:
    pipelines.write(folder, correlated_runs.files(600))
    return "lines.csv"


KINDS = pytest.mark.parametrize("prepare", [plain, correlated])


def environment(folder: Path, cut: str) -> dict[str, str]:
    size = (folder / cut).stat().st_size
    return {
        **os.environ,
        "CLINKER_SPLIT_BYTES": str(size // 2 + 1),
        "CLINKER_PARTITION_BYTES": str(size // 2 + 1),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def embedded(folder: Path, cut: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    pipelines.with_splits(monkeypatch, folder, cut, 2)
    assert pipelines.run(folder).result.exit_code == 2
    return without_ids(pipelines.outputs(folder))


@KINDS
def test_standalone_cluster(
    prepare: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_cluster: Cluster
) -> None:
    from spark_jobs import bundle

    cut = prepare(tmp_path)
    expected = embedded(tmp_path, cut, monkeypatch)
    package = bundle.build(tmp_path / "spark_jobs.zip")
    home = launcher.pyspark_home()
    assert home is not None
    run = subprocess.run(
        [
            str(home / "bin" / "spark-submit"), "--master", spark_cluster.master, "--py-files", str(package),
            "--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false",
            "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1",
            str(ROOT / "spark_jobs" / "run_pipeline.py"), str(tmp_path / "pipeline.yaml"), "--force",
        ],
        env={
            **environment(tmp_path, cut), "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
        },
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert run.returncode == 2, run.stdout + run.stderr
    assert without_ids(pipelines.outputs(tmp_path)) == expected
    assert spark_cluster.state()["completedapps"], "the cluster has not seen the application"


@KINDS
def test_connect_server(prepare: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = prepare(tmp_path)
    expected = embedded(tmp_path, cut, monkeypatch)
    with connect.server(tmp_path) as address:
        run = subprocess.run(
            [sys.executable, "-m", "spark_jobs", "run", "pipeline.yaml", "--force", "--remote", address],
            env={**environment(tmp_path, cut), "PYTHONPATH": str(ROOT)},
            cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
    assert run.returncode == 2, run.stdout + run.stderr
    assert without_ids(pipelines.outputs(tmp_path)) == expected
