"""Sensors, replays and collections look into stores, with the credentials of a connection or of the environment."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from clinker_provider import dead_letters, files
from spark_jobs import result
from tests.lazily import LazyModule
from tests.object_store import ACCESS_KEY, SECRET_KEY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import Bucket

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")

HEADER = "_cxl_dlq_id,_cxl_dlq_source_row\n"


@pytest.fixture
def store_conn_id(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> str:
    """A connection with the credentials of the bucket, which the environment does not have."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    extra = {"endpoint_url": s3.endpoint, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": ACCESS_KEY, "password": SECRET_KEY, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    return "lake"


def metrics(s3: Bucket, name: str, pipeline: str = "orders") -> None:
    document = {"schema_version": 1, "execution_id": name, "pipeline_name": pipeline, "records_total": 5}
    s3.put(f"spool/{name}.json", json.dumps({**document, "records_dlq": 1}))


def dead_letters_sensor(path: str, **arguments: Any) -> Any:
    from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

    return ClinkerDeadLettersSensor(task_id="wait", path=path, poke_interval=0.01, timeout=5, **arguments)


def test_dead_letters_in_a_store_are_counted(s3: Bucket, store_conn_id: str) -> None:
    waiting = dead_letters_sensor(s3.uri("dead/*.csv"), min_count=3, store_conn_id=store_conn_id)
    s3.put("dead/a.csv", HEADER + "1,1\n2,2\n")
    assert not waiting.poke({}).is_done
    s3.put("dead/b.csv", gzip.compress((HEADER + "3,3\n").encode()))
    poked = waiting.poke({})
    assert poked.is_done
    assert poked.xcom_value == {"paths": [s3.uri("dead/a.csv"), s3.uri("dead/b.csv")], "count": 3}


def test_a_file_of_this_very_name_is_no_pattern(s3: Bucket) -> None:
    s3.put("d[1].csv", HEADER + "1,1\n")
    s3.put("d1.csv", HEADER + "1,1\n2,2\n")
    assert dead_letters.look(s3.uri("d[1].csv")).count == 1
    s3.delete("d[1].csv")
    assert dead_letters.look(s3.uri("d[1].csv")).count == 2
    assert dead_letters.look(s3.uri("no.csv")) == dead_letters.Found((), 0)


def test_a_store_that_refuses_is_an_error_not_a_wait(s3: Bucket, store_conn_id: str) -> None:
    with pytest.raises(exceptions.ClinkerIOError, match="s3://no-such-bucket"):
        dead_letters_sensor(s3.missing() + "dead.csv", store_conn_id=store_conn_id).poke({})


@pytest.mark.usefixtures("context")
def test_triggers_carry_the_name_of_the_connection_alone(s3: Bucket, store_conn_id: str) -> None:
    from airflow.providers.common.compat.sdk import TaskDeferred

    from clinker_provider.triggers.dead_letters import DeadLettersTrigger

    s3.put("dead.csv", HEADER)
    waiting = dead_letters_sensor(s3.uri("dead.csv"), store_conn_id=store_conn_id, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    _, arguments = deferred.value.trigger.serialize()
    assert arguments["store_conn_id"] == "lake"
    assert SECRET_KEY not in json.dumps(arguments)
    s3.put("dead.csv", HEADER + "1,1\n")

    async def fired() -> Any:
        return await asyncio.wait_for(anext(DeadLettersTrigger(**arguments).run()), 30)

    assert asyncio.run(fired()).payload == {"status": "found", "paths": [s3.uri("dead.csv")], "count": 1}


def test_metrics_and_results_in_a_store_are_waited_for(s3: Bucket, store_conn_id: str, context: Any) -> None:
    from clinker_provider.sensors import looking

    metrics(s3, "a")
    metrics(s3, "b", "other")
    s3.put("spool/.c.json", "{")
    given = {"task_id": "wait", "store_conn_id": store_conn_id}
    waiting = looking.ClinkerMetricsSensor(spool_dir=s3.uri("spool"), pipeline_name="orders", **given)
    found = {"paths": [s3.uri("spool/a.json")], "count": 1, "records": 5, "dlq_count": 1}
    assert waiting.poke(context).xcom_value == found
    waiting = looking.ClinkerResultSensor(work_dir=s3.uri("work"), execution_id="x", **given)
    assert not waiting.poke(context).is_done
    s3.put("work/x/result.json", json.dumps(result.RunResult("x", 2, records_total=4).to_dict()))
    assert waiting.poke(context).xcom_value["records_total"] == 4


def test_metrics_in_a_store_are_collected(s3: Bucket, store_conn_id: str, tmp_path: Path, context: Any) -> None:
    from clinker_provider.operators.metrics import ClinkerMetricsCollectOperator

    metrics(s3, "b")
    metrics(s3, "a")
    s3.put("spool/c.json", "no metrics")
    archive = tmp_path / "all.ndjson"
    collecting = ClinkerMetricsCollectOperator(
        task_id="collect", spool_dir=s3.uri("spool"), output_file=str(archive), delete_after_collect=True,
        store_conn_id=store_conn_id,
    )  # fmt: skip
    assert collecting.execute(context) == {"collected": 2, "skipped": 1, "output_file": str(archive)}
    assert [json.loads(line)["execution_id"] for line in archive.read_text().splitlines()] == ["a", "b"]
    assert s3.keys() == ["spool/c.json"]


@pytest.mark.parametrize(
    ("spool_dir", "output_file", "reason"),
    [
        ("ftp://acme/spool", "all.ndjson", "no client is known for ftp://"),
        ("s3://acme/spool", "s3://acme/all.ndjson", "an archive is a local file, because lines are added to it"),
    ],
)
def test_metrics_of_no_place_are_refused(spool_dir: str, output_file: str, reason: str, context: Any) -> None:
    from clinker_provider.operators.metrics import ClinkerMetricsCollectOperator

    collecting = ClinkerMetricsCollectOperator(task_id="collect", spool_dir=spool_dir, output_file=output_file)
    with pytest.raises(exceptions.ClinkerConfigError, match=reason):
        collecting.execute(context)


def test_an_object_is_a_local_file_as_long_as_it_is_needed(s3: Bucket) -> None:
    s3.put("x", b"content")
    with files.Files().local(s3.uri("x")) as copy:
        assert copy.read_bytes() == b"content"
    assert not copy.exists()
    with pytest.raises(FileNotFoundError), files.Files().local(s3.uri("y")):
        pass
