"""A whole DAG run through Airflow's own machinery, with a `spark-submit` that is none: retries, mapping, deferral."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

DAG_FILE = """
import json
from datetime import datetime, timedelta

from airflow.sdk import Asset, dag, task

from clinker_provider.operators.spark import ClinkerSparkOperator
from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

FOLDER = {folder!r}
DEFAULTS = dict(master="local[1]", validate="off", spark_binary={binary!r}, retries=2, retry_delay=timedelta(seconds=0))


def job(name, exits, **record):
    job = dict(exits=exits, calls=f"{{FOLDER}}/{{name}}.calls", record=record)
    return {{"FAKE_JOB": json.dumps(job)}}


@dag(dag_id="endings", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, default_args=DEFAULTS)
def endings():
    ClinkerSparkOperator(task_id="io_then_success", pipeline="p.yaml", env_vars=job("io", [4, 0]))
    ClinkerSparkOperator(task_id="config", pipeline="p.yaml", env_vars=job("config", [1]))
    ClinkerSparkOperator(task_id="evaluation", pipeline="p.yaml", env_vars=job("evaluation", [3]))
    partial = ClinkerSparkOperator(
        task_id="partial",
        pipeline="{{{{ dag.dag_id }}}}.yaml",
        env_vars=job("partial", [2], dlq_count=2, dlq_path=f"{{FOLDER}}/dead.csv"),
        link_templates={{"dlq_url": "https://files.example.com{{dlq_path}}"}},
    )
    ClinkerSparkOperator.partial(task_id="mapped", env_vars=job("mapped", [0])).expand(pipeline=["a.yaml", "b.yaml"])
    ClinkerDeadLettersSensor(
        task_id="deferred", path=f"{{FOLDER}}/dead.csv", min_count=3, deferrable=True, poke_interval=0.1, timeout=60
    )
    published = dict(
        dlq_count=2, dlq_path="/dead.csv", output_files=[f"{{FOLDER}}/a.csv", f"{{FOLDER}}/b_7.csv"],
        outputs=[dict(name="a", records=5, files=1), dict(name="b", records=3, files=1)],
    )
    asset = dict(pipeline=f"{{FOLDER}}/assets.yaml", emit_assets=True)
    ClinkerSparkOperator(task_id="assets", env_vars=job("assets", [2], **published), **asset)
    ClinkerSparkOperator(task_id="no_assets", env_vars=job("no_assets", [3], **published), **asset)
    late = ClinkerDeadLettersSensor(
        task_id="clean", path="{{{{ ti.xcom_pull(task_ids='io_then_success', key='dlq_path') or '' }}}}",
        poke_interval=0.1, timeout=0.2, soft_fail=True,
    )


@dag(dag_id="reader", schedule=[Asset(uri=f"file://{{FOLDER}}/a.csv")], is_paused_upon_creation=False)
def reader():
    @task
    def nothing(): pass
    nothing()


endings()
reader()
"""

PIPELINE = """
pipeline: {name: assets}
nodes:
  - {type: source, name: rows, config: {type: csv, path: in.csv, schema: {id: int}}}
  - {type: output, name: a, input: rows, config: {type: csv, path: a.csv}}
  - {type: output, name: b, input: rows, config: {type: csv, path: 'b_{batch_id}.csv'}}
"""

SCRIPT = """
import json, sys
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.asset import AssetDagRunQueue, AssetEvent
from airflow.models.dagbundle import DagBundleModel
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session

bag = DagBag(dag_folder=sys.argv[1])
assert not bag.import_errors, bag.import_errors
with create_session() as session:
    session.merge(DagBundleModel(name="tests"))
sync_bag_to_db(bag, "tests", None)
run = bag.dags["endings"].test()
report = {"tasks": [], "xcoms": [], "events": [], "queued": []}
with create_session() as session:
    for ti in run.get_task_instances(session=session):
        report["tasks"].append([ti.task_id, ti.map_index, str(ti.state), ti.try_number])
    for event in session.query(AssetEvent).all():
        report["events"].append([event.source_task_id, event.asset.uri, event.extra])
    report["queued"] = [item.target_dag_id for item in session.query(AssetDagRunQueue).all()]
    for item in session.scalars(XComModel.get_many(run_id=run.run_id, dag_ids=["endings"])):
        report["xcoms"].append([item.task_id, item.map_index, item.key, XComModel.deserialize_value(item)])
print("REPORT" + json.dumps(report))
"""


class Run:
    """A finished DAG run."""

    def __init__(self, folder: Path, report: dict[str, Any]) -> None:
        self.folder = folder
        self.states = {(name, index): state for name, index, state, _ in report["tasks"]}
        self.events = {uri: (task, extra) for task, uri, extra in report["events"]}
        self.queued = report["queued"]
        self.xcoms = {(name, index, key): value for name, index, key, value in report["xcoms"]}

    def calls(self, name: str) -> list[str]:
        """The execution ids of the runs of a job."""
        return (self.folder / f"{name}.calls").read_text().split()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    dags = folder / "dags"
    dags.mkdir()
    fake = (Path(__file__).parent / "fake_spark_submit.py").read_text()
    binary = folder / "spark-submit"
    binary.write_text(f"#!{sys.executable}\n{fake}")
    binary.chmod(0o755)
    (folder / "assets.yaml").write_text(PIPELINE)
    (folder / "dead.csv").write_text("_cxl_dlq_id\n1\n2\n3\n")
    (dags / "endings.py").write_text(DAG_FILE.format(folder=str(folder), binary=str(binary)))
    environ = {
        **os.environ,
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=environ, check=True, capture_output=True)
    command = [sys.executable, "-c", SCRIPT, str(dags / "endings.py")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=240)
    assert "REPORT" in done.stdout, done.stdout[-6000:] + done.stderr[-3000:]
    return Run(folder, json.loads(done.stdout.partition("REPORT")[2].splitlines()[0]))


def test_io_failure_is_retried_under_another_execution_id(run: Run) -> None:
    assert run.states["io_then_success", -1] == "success"
    first, second = run.calls("io")
    assert first != second
    # What Airflow keeps are the XComs of the last try.
    assert run.xcoms["io_then_success", -1, "execution_id"] == second
    assert run.xcoms["io_then_success", -1, "exit_code"] == 0


@pytest.mark.parametrize(("task", "code"), [("config", 1), ("evaluation", 3)])
def test_wrong_pipeline_and_wrong_data_are_not_retried(run: Run, task: str, code: int) -> None:
    assert run.states[task, -1] == "failed"
    assert len(run.calls(task)) == 1
    assert run.xcoms[task, -1, "exit_code"] == code
    assert run.xcoms[task, -1, "return_value"]["status"] == "failed"


def test_dead_letters_succeed_with_links_and_null_values(run: Run) -> None:
    assert run.states["partial", -1] == "success"
    assert run.xcoms["partial", -1, "status"] == "partial_success"
    assert run.xcoms["partial", -1, "metrics_path"] is None
    link = run.xcoms["partial", -1, "_link_DeadLettersLink"]
    assert link == f"https://files.example.com{run.folder}/dead.csv"
    assert not run.xcoms.get(("partial", -1, "_link_MetricsLink"))


def test_mapped_runs_are_runs_of_their_own(run: Run) -> None:
    assert [run.states["mapped", index] for index in (0, 1)] == ["success", "success"]
    ids = {run.xcoms["mapped", index, "execution_id"] for index in (0, 1)}
    assert ids == set(run.calls("mapped"))
    assert len(ids) == 2


def test_deferred_sensor_ends_through_its_trigger_and_a_clean_run_is_skipped(run: Run) -> None:
    assert run.states["deferred", -1] == "success"
    assert run.xcoms["deferred", -1, "return_value"]["count"] == 3
    assert run.states["clean", -1] == "skipped"


def test_assets_are_told_of_what_was_published_and_start_their_readers(run: Run) -> None:
    uri = run.folder.as_uri()
    assert set(run.events) == {f"{uri}/a.csv", f"{uri}/b_7.csv"}
    task, extra = run.events[f"{uri}/a.csv"]
    assert task == "assets", "the other published nothing"
    assert (extra["records"], extra["dlq_count"], extra["dlq_path"]) == (5, 2, "/dead.csv")
    assert extra["schema"] == [{"name": "id", "type": "Int"}]
    assert run.events[f"{uri}/b_7.csv"][1]["records"] == 3
    assert run.states["no_assets", -1] == "failed"
    assert run.queued == ["reader"]
