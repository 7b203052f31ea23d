"""A deferred run on a real standalone cluster, through its REST server."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clinker_provider import cluster
from tests.cluster import standalone
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

SETTINGS = """
spark.master.rest.enabled true
spark.master.rest.host 127.0.0.1
spark.master.rest.port 0
"""
PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: dead.csv}}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, qty: int}}}
  - {type: transform, name: t, input: s, config: {cxl: 'emit twice = qty * 2'}}
  - {type: output, name: o, input: t, config: {type: csv, path: out.csv}}
"""


@pytest.fixture(scope="module")
def rest_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The master's URL, and the port of its REST server."""
    folder = tmp_path_factory.mktemp("rest")
    conf = folder / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(SETTINGS)
    with standalone(folder, conf_dir=conf) as running:
        found = re.search(
            r"REST server for submitting applications on \S+ with port (\d+)", (folder / "master.log").read_text()
        )
        assert found, "the master has no REST server"
        yield running.master, int(found[1])


def operator(folder: Path, running: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> Any:
    from clinker_provider.operators.spark import ClinkerSparkOperator

    master, port = running
    host, _, number = master.removeprefix("spark://").partition(":")
    extra = {"deploy-mode": "cluster", "rest-port": port}
    connection = {"conn_type": "spark", "host": f"spark://{host}", "port": int(number), "extra": json.dumps(extra)}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (folder / "p.yaml").write_text(PIPELINE)
    return ClinkerSparkOperator(
        task_id="run",
        pipeline=str(folder / "p.yaml"),
        conn_id="cluster",
        work_dir=str(work),
        deferrable=True,
        force=True,
        poll_interval_s=0.2,
        driver_memory="512m",
        conf={"spark.executor.memory": "512m", "spark.executorEnv.PYSPARK_PYTHON": sys.executable},
        env_vars={"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
    )


def deferred(task: Any, context: Any) -> Any:
    from airflow.providers.common.compat.sdk import TaskDeferred

    with pytest.raises(TaskDeferred) as raised:
        task.execute(context)
    return raised.value


def test_a_run_leaves_its_slot_and_its_record_brings_it_back(
    tmp_path: Path, rest_cluster: tuple[str, int], context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.csv").write_text("id,qty\n1,2\n2,x\n3,4\n")
    left = deferred(operator(tmp_path, rest_cluster, monkeypatch), context)

    async def fired() -> Any:
        return (await asyncio.wait_for(anext(left.trigger.run()), 180)).payload

    event = asyncio.run(fired())
    assert event == {"status": "record"}
    returned = operator(tmp_path, rest_cluster, monkeypatch).execute_complete(context, event=event, **left.kwargs)
    assert (returned["status"], returned["records"]["total"]) == ("partial_success", 3)
    assert (tmp_path / "out.csv").read_text() == "id,qty,twice\n1,2,4\n3,4,8\n"
    assert context["ti"].pushed["application_id"].startswith(("driver-", "app-"))
    assert list((tmp_path / "work").iterdir()) == []


def test_a_cleared_task_ends_its_driver(
    tmp_path: Path, rest_cluster: tuple[str, int], context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.csv").write_text("id,qty\n" + "1,2\n" * 2_000_000)
    left = deferred(operator(tmp_path, rest_cluster, monkeypatch), context)
    job = cluster.Job.of_dict(left.kwargs["waiting"]["job"])
    assert until(lambda: cluster.state_of(job) == "RUNNING", 60)
    asyncio.run(left.trigger.on_kill())
    assert until(lambda: cluster.state_of(job) == "KILLED", 60)
    assert not Path(tmp_path, "out.csv").exists()
