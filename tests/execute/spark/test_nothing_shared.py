"""A cluster whose machines share no folder, neither with each other nor with the driver: all goes through a store.

Each worker has a mount namespace of its own, in which the folders of the test, those for temporary files and the engine
are empty. The files are those of a run on one machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests import cluster, object_store, waiting
from tests.execute import correlated_runs, pipelines, without_spark
from tests.execute.tasks import test_splits
from tests.execute.tasks.test_splits import customers, orders, without_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster import Cluster
    from tests.object_store import Bucket

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[3]
#: Runs a command where some folders are empty, and nobody else's.
_ALONE = 'for each in $HIDDEN; do mount -t tmpfs tmpfs "$each" || exit 1; done; cd /; exec "$@"'
_KEYS = {
    "AWS_ACCESS_KEY_ID": object_store.ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": object_store.SECRET_KEY,
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}
MORE = """
  - type: output
    name: in_order
    input: priced
    config:
      {name: in_order, type: csv, path: out/in_order.csv, sort_order: [customer, gross], split: {max_records: 150}}
  - type: transform
    name: placed
    input: priced
    config:
      analytic_window: {group_by: [customer], sort_by: [{field: gross, order: desc}]}
      cxl: |
        emit nth = $window.row_number()
        emit total = $window.sum(gross)
  - {type: output, name: o6, input: placed, config: {name: o6, type: parquet, path: out/placed.parquet}}
"""
#: One with a join, an aggregate, windows, sorted and split outputs; one whose groups are rejected and retracted.
FILES: dict[str, Mapping[str, str | bytes]] = {
    "everything": {
        "pipeline.yaml": test_splits.PIPELINE.replace("nodes:\n", f"nodes:{MORE}", 1),
        "orders.csv": orders(600, "\n", final=True, bom=False),
        "customers.csv": customers(900),
    },
    "correlated": correlated_runs.files(600),
}
CUT = {"everything": "orders.csv", "correlated": "lines.csv"}
#: A build side of more bytes goes to several tasks, and groups do.
PARTITION_BYTES = {"everything": 3000, "correlated": 8000}


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("apart")
    wanted = [folder.parent, Path("/tmp"), Path("/dev/shm"), ROOT / "spark_jobs"]
    hidden = " ".join(str(each) for each in wanted if each.is_dir())
    around = ("unshare", "--mount", "sh", "-c", _ALONE, "alone")
    environment = {"HIDDEN": hidden, **_KEYS}
    try:
        tried = subprocess.run([*around, "true"], env={**os.environ, **environment}, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("this system has no mount namespaces")
    if tried.returncode:
        pytest.skip(f"mount namespaces are not allowed here: {tried.stderr.decode().strip()}")
    with cluster.standalone(folder, around_workers=around, environment=environment) as made:
        yield made


def in_store(text: str, bucket: Bucket, out: str) -> str:
    """The pipeline with all of its paths in a bucket."""
    moved = re.sub(r"path: out/([\w.]+)", lambda found: f'path: "{bucket.uri(out)}/{found[1]}"', text)
    return re.sub(r"path: (\w+\.csv)", lambda found: f'path: "{bucket.uri("in")}/{found[1]}"', moved)


def written(bucket: Bucket, out: str) -> dict[str, object]:
    """What a run has written; dead letters name the file as a run on local files does."""
    before = f"{bucket.uri('in')}/".encode()
    keys = [key for key in [*bucket.keys()] if key.startswith(f"{out}/")]
    return without_ids({key.removeprefix(f"{out}/"): bucket.get(key).replace(before, b"") for key in keys})


def prepare(folder: Path, kind: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Write the pipeline, and its inputs to the bucket; gives what a run on one machine and local files writes."""
    files = FILES[kind]
    alone = folder / "alone"
    pipelines.write(alone, files)
    pipelines.cut_by(monkeypatch, (alone / CUT[kind]).stat().st_size // 3 + 1, PARTITION_BYTES[kind])
    with pytest.MonkeyPatch.context() as patch:
        without_spark.install(patch)
        found = pipelines.run(alone).result
    assert found.exit_code == 2, found.error
    for name, content in files.items():
        if name != "pipeline.yaml":
            bucket.put(f"in/{name}", content)
    settings = f'[storage.s3]\nendpoint = "{bucket.endpoint}"\nregion = "{object_store.REGION}"\n'
    pipelines.write(
        folder, {"pipeline.yaml": in_store(str(files["pipeline.yaml"]), bucket, "out"), "clinker.toml": settings}
    )
    return without_ids(pipelines.outputs(alone))


def submitted(folder: Path, master: str, *options: str) -> subprocess.Popen[str]:
    """The run on the cluster, whose driver has the settings of the store from its file."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    environment.pop("AWS_ENDPOINT_URL_S3", None)
    # Both workers have the address of one machine, and executors of one machine would read each other's files.
    fixed = ["spark.executor.memory=512m", "spark.ui.enabled=false", "spark.shuffle.readHostLocalDisk=false"]
    fixed += ["spark.driver.host=127.0.0.1"]
    confs = [word for each in [*fixed, "spark.driver.bindAddress=127.0.0.1"] for word in ("--conf", each)]
    command = [sys.executable, "-m", "spark_jobs", "run", "pipeline.yaml", "--allow-absolute-paths", "--master", master]
    return subprocess.Popen(
        [*command, *confs, *options],
        env={**environment, "PYTHONPATH": str(ROOT)}, cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


@pytest.mark.parametrize("scratch", ["beside the outputs", "set"])
def test_the_files_are_those_of_one_machine(
    scratch: str, tmp_path: Path, s3: Bucket, apart: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "everything" if scratch == "set" else "correlated"
    expected = prepare(tmp_path, kind, s3, monkeypatch)
    if scratch == "set":
        with (tmp_path / "clinker.toml").open("a") as file:
            file.write(f'[storage]\nscratch = "{s3.uri("work")}"\n')
    run = submitted(tmp_path, apart.master)
    told, _ = run.communicate(timeout=600)
    assert run.returncode == 2, told
    assert written(s3, "out") == expected
    assert {key.partition("/")[0] for key in [*s3.keys()]} == {"in", "out"}, "nothing else is left"
    assert not s3.uploads()


def test_an_executor_that_dies_on_the_way_changes_nothing(
    tmp_path: Path, s3: Bucket, apart: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = prepare(tmp_path, "correlated", s3, monkeypatch)
    killed: list[int] = []

    def kill() -> None:
        if waiting.until(lambda: any("/parts/" in key for key in [*s3.keys()]), 120):
            worker = psutil.Process(apart.process_ids[1])
            for each in worker.children(recursive=True):
                killed.append(each.pid)
                each.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    run = submitted(tmp_path, apart.master)
    told, _ = run.communicate(timeout=600)
    killer.join()
    assert killed, "the worker had no executor"
    assert run.returncode == 2, told
    assert written(s3, "out") == expected
    assert not [key for key in [*s3.keys()] if ".clinker-" in key]
