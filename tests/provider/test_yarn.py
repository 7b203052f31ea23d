"""A run whose driver is in a container of YARN, and shares nothing with the task but a store."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

if TYPE_CHECKING:
    from tests.object_store import Bucket
    from tests.yarn import Yarn

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
pipeline: {name: orders}
error_handling: {strategy: continue, dlq: {path: "s3://BUCKET/out/dead.csv"}}
nodes:
  - {type: source, name: orders, config: {type: csv, path: "s3://BUCKET/in.csv", schema: {id: int, qty: int}}}
  - {type: transform, name: twice, input: orders, config: {cxl: "use prices\\nemit twice = prices.twice(qty)"}}
  - {type: output, name: all, input: twice, config: {type: csv, path: "s3://BUCKET/out/all.csv"}}
"""
MODULE = "fn twice(n) = n * 2\n"
WORKSPACE = '[storage.s3]\nendpoint = "ENDPOINT"\nregion = "eu-central-1"\n'


def operator(folder: Path, yarn: Yarn, s3: Bucket, monkeypatch: pytest.MonkeyPatch, **given: Any) -> Any:
    """A task whose store is named by its workspace and reached with credentials of its own."""
    from clinker_provider.operators.spark import ClinkerSparkOperator

    secrets = {}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        secrets[name] = os.environ[name]
        monkeypatch.delenv(name)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf_dir))
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn.web}
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    etl = folder / "etl"
    for name, text in {
        "clinker.toml": WORKSPACE.replace("ENDPOINT", s3.endpoint),
        "pipelines/orders.yaml": PIPELINE.replace("BUCKET", s3.name),
        "pipelines/rules/prices.cxl": MODULE,
    }.items():
        (etl / name).parent.mkdir(parents=True, exist_ok=True)
        (etl / name).write_text(text)
    variables = {**secrets, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return ClinkerSparkOperator(
        task_id="run",
        pipeline=str(etl / "pipelines/orders.yaml"),
        conn_id="yarn",
        work_dir=s3.uri("work"),
        allow_absolute_paths=True,
        driver_memory="512m",
        executor_memory="512m",
        num_executors=1,
        conf={
            "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
            "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
            # What a busy machine takes to start containers.
            "spark.clinker.executorsTimeout": "1500s",
            **{f"spark.executorEnv.{name}": value for name, value in secrets.items()},
        },
        env_vars=variables,
        **given,
    )


def prepared(s3: Bucket) -> None:
    s3.put("in.csv", "id,qty\n1,2\n2,x\n3,4\n")


def check(s3: Bucket, returned: dict[str, Any]) -> None:
    assert (returned["status"], returned["records"]["total"], returned["records"]["dlq"]) == ("partial_success", 3, 1)
    found = {key: text for key, text in s3.texts().items() if ".clinker-once-" not in key}
    assert found.pop("out/all.csv") == "id,qty,twice\n1,2,4\n3,4,8\n"
    assert "2,x" in found.pop("out/dead.csv")
    assert found.keys() == {"in.csv"}, "the result record is removed when it was read"


def test_a_driver_on_yarn_shares_nothing_but_a_store(
    tmp_path: Path, yarn: Yarn, s3: Bucket, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(s3)
    task = operator(tmp_path, yarn, s3, monkeypatch)
    try:
        returned = task.execute(context)
    except Exception:
        print(yarn.logs())
        raise
    check(s3, returned)
    assert context["ti"].pushed["application_id"].startswith("application_")


def test_a_deferred_driver_on_yarn_is_waited_for_by_the_resource_manager(
    tmp_path: Path, yarn: Yarn, s3: Bucket, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.common.compat.sdk import TaskDeferred

    prepared(s3)
    task = operator(tmp_path, yarn, s3, monkeypatch, deferrable=True, poll_interval_s=0.5)
    with pytest.raises(TaskDeferred) as left:
        task.execute(context)

    async def fired() -> Any:
        return (await asyncio.wait_for(anext(left.value.trigger.run()), 240)).payload

    event = asyncio.run(fired())
    assert event["status"] == "ended"
    check(s3, task.execute_complete(context, event=event, **left.value.kwargs))
