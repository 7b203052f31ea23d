"""A run's figures and spans as Airflow sends them on: to a StatsD collector, and into a trace."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from clinker_provider import figures, spans
from spark_jobs import result

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RECORD = result.RunResult(
    "e", 2, "orders", records_total=17, records_written=13, records_filtered=1, records_dlq=2, dlq_count=2,
    dlq_categories={"type_coercion_failure": 2}, metrics={"duration_ms": 900}, application_id="local-1",
    nodes={
        "rows": {"kind": "source", "records_in": 17, "records_out": 17, "dead": 0},
        "größe.x": {"kind": "transform", "records_in": 17, "records_out": 15, "dead": 2},
    },
    started_at="2026-01-02T03:04:05+00:00", phases_ms={"session": 500, "job 0": 300},
)  # fmt: skip


def named(record: result.RunResult | None, status: str = "partial_success") -> dict[str, int]:
    return {name: each.value for each in figures.of(record, status, "etl", "group.run") for name in each.names}


def test_names_tell_task_pipeline_node_category_and_phase() -> None:
    found = named(RECORD)
    assert found["clinker.task.etl.group__run.runs.partial_success"] == 1
    assert found["clinker.task.etl.group__run.records_read"] == 17
    assert found["clinker.task.etl.group__run.duration"] == 900
    assert found["clinker.pipeline.orders.dead_letters"] == 2
    assert found["clinker.category.orders.type_coercion_failure.dead_letters"] == 2
    assert found["clinker.node.orders.rows.records_out"] == 17
    assert found["clinker.node.orders.gr__e__x.dead"] == 2
    assert found["clinker.phase.orders.job_0.duration"] == 300
    assert not [name for name in found if "deduplicated" in name], "a counter that does not grow"


def test_tags_tell_what_short_names_do_not() -> None:
    found = {(each.name, each.tags.get("node")): each for each in figures.of(RECORD, "partial_success", "etl", "run")}
    common = {"dag_id": "etl", "task_id": "run", "pipeline": "orders"}
    assert found["clinker.runs", None].tags == {**common, "status": "partial_success"}
    assert found["clinker.records_written", None].tags == common
    assert found["clinker.node.dead", "größe.x"].tags == {**common, "node": "größe.x", "kind": "transform"}


def test_a_run_that_published_nothing_counts_as_a_run_alone() -> None:
    failed = replace(RECORD, exit_code=3)
    assert {name.rpartition(".")[2] for name in named(failed, "failed")} == {"failed", "duration"}
    assert named(None, "failed") == {
        "clinker.task.etl.group__run.runs.failed": 1, "clinker.pipeline.unknown.runs.failed": 1
    }  # fmt: skip


def test_names_are_never_too_long_for_airflow() -> None:
    longest = replace(RECORD, pipeline_name="p" * 300, nodes={"n" * 300: RECORD.nodes["rows"]})
    for each in figures.of(longest, "partial_success", "d" * 250, "t" * 250):
        assert all(len(name) <= 250 for name in (each.name, *each.names))


SEND = """
import json, sys
from clinker_provider import figures
from spark_jobs import result
if sys.argv[2] == "initialized":  # as the process of a task does
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils
    if hasattr(stats, "initialize"):
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
    else:  # Airflow 3.2
        stats.Stats.initialize(factory=stats_utils.get_stats_factory(stats.Stats))
figures.publish(result.of_dict(json.loads(sys.argv[1])), "partial_success", "etl", "run")
"""


def sent(settings: Mapping[str, str], tmp_path: Path) -> Counter[str]:
    """What a StatsD collector gets of a task's process, each line with how often it came."""
    import json

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.bind(("127.0.0.1", 0))
        collector.settimeout(0.5)
        port = str(collector.getsockname()[1])
        environ = {
            **os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1", "AIRFLOW__METRICS__STATSD_PORT": port, **settings,
        }  # fmt: skip
        how = "initialized" if _has_to_be_initialized() else "as it is"
        command = [sys.executable, "-c", SEND, json.dumps(RECORD.to_dict()), how]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return received(collector)


def received(collector: socket.socket) -> Counter[str]:
    """What has come to a collector."""
    lines: Counter[str] = Counter()
    while True:
        try:
            lines.update(collector.recv(65_536).decode().splitlines())
        except TimeoutError:
            return lines


def _has_to_be_initialized() -> bool:
    try:
        from airflow.sdk.observability.metrics import stats_utils  # noqa: F401
    except ImportError:  # before Airflow 3.3 the first figure does it
        return False
    return True


@pytest.mark.airflow
def test_a_collector_gets_counters_and_timers_by_their_names(tmp_path: Path) -> None:
    lines = sent({}, tmp_path)
    for line in (
        "airflow.clinker.runs:1|c",
        "airflow.clinker.task.etl.run.records_read:17|c",
        "airflow.clinker.pipeline.orders.dead_letters:2|c",
        "airflow.clinker.node.orders.rows.records_in:17|c",
        "airflow.clinker.category.orders.type_coercion_failure.dead_letters:2|c",
        "airflow.clinker.task.etl.run.duration:900.000000|ms",
        "airflow.clinker.phase.orders.session.duration:500.000000|ms",
    ):
        assert lines[line] == 1, sorted(lines)
    # Without tags the nodes of all pipelines are one figure.
    assert lines["airflow.clinker.node.records_in:17|c"] == 2


@pytest.mark.airflow
def test_a_collector_that_knows_tags_gets_them(tmp_path: Path) -> None:
    settings = {"AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True", "AIRFLOW__METRICS__LEGACY_NAMES_ON": "False"}
    lines = sent(settings, tmp_path)
    assert "airflow.clinker.records_read,dag_id=etl,task_id=run,pipeline=orders:17|c" in lines, sorted(lines)
    assert not [line for line in lines if re.match(r"airflow\.clinker\.(task|pipeline)\.", line)]


@pytest.mark.airflow
def test_every_end_of_a_task_is_counted_once(spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from clinker_provider.exceptions import ClinkerError

    told: list[tuple[str, str, str]] = []
    monkeypatch.setattr(
        figures,
        "publish",
        lambda record, status, dag, task: told.append((status, task, record and record.pipeline_name)),
    )
    monkeypatch.setattr(spans, "publish", lambda record: None)
    spark.operator({"exit": 2, "record": {"pipeline_name": "p"}}).execute(context)
    for failing in (spark.operator({"exit": 3}), spark.operator({}, spark_binary="/no/such")):
        with pytest.raises(ClinkerError):
            failing.execute(context)
    assert [status for status, *_ in told] == ["partial_success", "failed", "failed"]
    assert told[0][1:] == ("run", "p")


@pytest.mark.airflow
def test_names_of_figures_show_no_secret(spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(figures, "publish", lambda *given: told.append(given))
    monkeypatch.setattr(spans, "publish", told.append)
    job = {"exit": 0, "record": {"pipeline_name": "LEAK", "nodes": {"LEAK-n": {"kind": "source"}}}}
    spark.operator(job, env_vars={"API_TOKEN": "LEAK"}).execute(context)
    assert len(told) == 2
    assert "LEAK" not in str(told)


@pytest.mark.airflow
def test_figures_that_cannot_be_told_end_no_task(spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr(figures, "publish", broken)
    assert spark.operator({"exit": 0, "record": {}}).execute(context)["status"] == "success"


def test_a_span_of_a_run_has_its_phases() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="Airflow's extra `otel`")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("airflow").start_as_current_span("worker.run") as task:
        spans.publish(RECORD, provider)
        spans.publish(replace(RECORD, exit_code=4, error=result.RunError("E900", "no file"), phases_ms={}), provider)
    session, job, run, failed, _ = exporter.get_finished_spans()
    assert [each.name for each in (session, job, run)] == ["clinker.session", "clinker.job 0", "clinker.run"]
    assert run.parent.span_id == task.get_span_context().span_id
    assert {each.parent.span_id for each in (session, job)} == {run.get_span_context().span_id}
    assert [(each.start_time - run.start_time) // 10**6 for each in (session, job)] == [0, 500]
    assert (run.end_time - run.start_time) // 10**6 == 900
    assert (run.attributes["clinker.dead_letters"], run.attributes["clinker.records.total"]) == (2, 17)
    assert (failed.status.status_code.name, failed.status.description) == ("ERROR", "E900")


def test_a_record_of_an_older_engine_has_no_span() -> None:
    spans.publish(replace(RECORD, started_at=None))
    spans.publish(replace(RECORD, started_at="once"))


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The names of the metrics that the scheduler's process sends, each with its tags."""
    from clinker_provider import compat

    told: list[tuple[Any, ...]] = []
    stats = SimpleNamespace(incr=lambda name, value, tags=None: told.append((name, tags)))
    monkeypatch.setattr(compat, "server_stats", lambda: stats)
    return told


def failed_by_the_scheduler(name: str | None, previous: str | None = "running") -> None:
    """Tell all listeners of the plugin of a failure, as Airflow does; the task instance is the database's."""
    from clinker_provider.plugins.clinker import ClinkerPlugin

    ti = SimpleNamespace(dag_id="etl", task_id="run", custom_operator_name=name)
    for each in ClinkerPlugin.listeners:
        each.on_task_instance_failed(previous_state=previous, task_instance=ti, error="gone")


def in_airflow_3() -> None:
    pytest.importorskip("airflow.sdk", reason="Airflow 2 calls listeners in workers")


@pytest.mark.airflow
@pytest.mark.parametrize("kind", ["plain", "function", "derived", "mapped"])
def test_an_attempt_whose_worker_died_is_counted(kind: str, lost: list[tuple[Any, ...]], spark: Any) -> None:
    in_airflow_3()
    from airflow.sdk import DAG

    from clinker_provider.decorators.clinker import clinker_task
    from clinker_provider.operators.spark import ClinkerSparkOperator

    class Derived(ClinkerSparkOperator):
        pass

    given: dict[str, Any] = {"task_id": "run", "master": "local[1]", "validate": "off"}
    with DAG("etl", schedule=None) as dag:
        match kind:
            case "function":
                clinker_task(lambda: "p.yaml", **given)()
            case "mapped":
                ClinkerSparkOperator.partial(**given).expand(pipeline=["a.yaml", "b.yaml"])
            case _:
                (Derived if kind == "derived" else ClinkerSparkOperator)(pipeline="p.yaml", **given)
    # The name that Airflow writes into its database.
    failed_by_the_scheduler(dag.get_task("run").operator_name)
    tags = {"dag_id": "etl", "task_id": "run", "pipeline": "unknown", "status": "lost"}
    assert lost == [
        ("clinker.runs", tags),
        ("clinker.task.etl.run.runs.lost", None),
        ("clinker.pipeline.unknown.runs.lost", None),
    ]


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("name", "previous"),
    [("PythonOperator", "running"), (None, "running"), ("Clinker metrics", "running"), ("Clinker", None)],
    ids=["another operator", "a worker's task instance", "no run of a pipeline", "a mark of a person"],
)
def test_other_failures_are_no_lost_attempts(name: str | None, previous: str | None, lost: list[Any]) -> None:
    in_airflow_3()
    failed_by_the_scheduler(name, previous)
    assert lost == []


@pytest.mark.airflow
def test_a_lost_attempt_that_cannot_be_counted_ends_no_scheduler(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_airflow_3()
    from clinker_provider import compat

    def broken() -> Any:
        raise OSError("no collector")

    monkeypatch.setattr(compat, "server_stats", broken)
    failed_by_the_scheduler("Clinker")
    assert "A lost attempt of run could not be counted" in caplog.text
