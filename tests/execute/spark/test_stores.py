"""Objects read by real tasks: settings reach them, and credentials are nowhere but in the environment."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from tests import object_store
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import Bucket, HdfsBucket

pytestmark = pytest.mark.spark

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: "{out}/dead.csv" }} }}
nodes:
  - type: source
    name: rows
    config: {{ type: csv, glob: "{glob}", schema: {{ id: int, v: string }} }}
  - {{ type: aggregate, name: a, input: rows, config: {{ group_by: [v], cxl: "emit n = count(*)" }} }}
  - {{ type: output, name: o, input: a, config: {{ type: csv, path: "{out}/o.csv" }} }}
"""


@pytest.mark.parametrize("where", ["local", "store"])
def test_tasks_read_and_write_objects_and_no_credentials_are_left(
    where: str, tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "20000")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    for name in ("a", "b"):
        s3.put(f"in/{name}.csv", "id,v\n" + "".join(f"{number},g{number % 3}\n" for number in range(9000)) + "x,y\n")
    out = "out" if where == "local" else s3.uri("out")
    workspace = f'[storage.s3]\nendpoint = "{s3.endpoint}"\nregion = "{object_store.REGION}"\n'
    pipelines.write(tmp_path, {"p.yaml": PIPELINE.format(glob=s3.uri("in/*.csv"), out=out), "clinker.toml": workspace})
    options = ["--allow-absolute-paths", "--log-level", "debug", "--metrics-spool-dir", str(tmp_path / "spool")]
    command = [sys.executable, "-m", "spark_jobs", "run", str(tmp_path / "p.yaml"), *options]
    lines = set[str]()
    log = tmp_path / "told.log"
    with log.open("w") as told, subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT) as process:
        own = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                lines |= {" ".join(each.cmdline()) for each in [own, *own.children(recursive=True)]}
                process.wait(0.2)
            except (psutil.Error, subprocess.TimeoutExpired):
                continue
    assert process.returncode == 2, log.read_text()
    written = (tmp_path / "out/o.csv").read_text() if where == "local" else s3.get("out/o.csv").decode()
    assert written == "v,n\ng0,6000\ng1,6000\ng2,6000\n"
    kept = [key for key in [*s3.keys()] if not key.startswith("in/")]
    assert kept == ([] if where == "local" else ["out/dead.csv", "out/o.csv"])
    left = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    for secret in (object_store.ACCESS_KEY, object_store.SECRET_KEY):
        assert not [text for text in (*lines, *left) if secret in text]
    assert any("java" in line for line in lines)


def test_tasks_read_and_write_files_of_hdfs(tmp_path: Path, hdfs: HdfsBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver alone knows where the namenode is, and as whom it asks."""
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "20000")
    monkeypatch.delenv("HADOOP_CONF_DIR")
    for name in ("a", "b"):
        hdfs.put(f"in/{name}.csv", "id,v\n" + "".join(f"{number},g{number % 3}\n" for number in range(9000)) + "x,y\n")
    workspace = f'[storage.hdfs.endpoints]\n"{hdfs.name}" = ["{hdfs.endpoint}"]\n'
    text = PIPELINE.format(glob=hdfs.uri("in/*.csv"), out=hdfs.uri("out"))
    pipelines.write(tmp_path, {"p.yaml": text, "clinker.toml": workspace})
    options = ["--allow-absolute-paths", "--work-dir", hdfs.uri("work"), "--execution-id", "r"]
    command = [sys.executable, "-m", "spark_jobs", "run", str(tmp_path / "p.yaml"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert hdfs.get("out/o.csv") == b"v,n\ng0,6000\ng1,6000\ng2,6000\n"
    left = [key for key in hdfs.keys() if not key.startswith("in/")]  # noqa: SIM118 - no dictionary
    assert left == ["out/dead.csv", "out/o.csv", "work/r/result.json"]
