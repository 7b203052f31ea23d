"""Sensors for results and metrics, and the notifier for dead letters."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from clinker_provider import files, looking
from spark_jobs import result
from tests.lazily import LazyModule

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")


def metrics(folder: Path, name: str, pipeline: str, **more: Any) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"execution_id": name, "pipeline_name": pipeline, **more}))
    return str(path)


def test_metrics_are_found_by_pipeline_and_number(tmp_path: Path) -> None:
    first = metrics(tmp_path, "a", "orders", records_total=5, records_dlq=1)
    second = metrics(tmp_path, "b", "orders", records_total=7)
    metrics(tmp_path, "c", "other")
    (tmp_path / "d.json").write_text("{")
    expected = {"paths": [first, second], "count": 2, "records": 12, "dlq_count": 1}
    assert looking.for_metrics(files.Files(), str(tmp_path), "orders", 2) == expected
    assert looking.for_metrics(files.Files(), str(tmp_path), "orders", 3) is None
    found = looking.for_metrics(files.Files(), str(tmp_path), None, 3)
    assert found is not None
    assert found["count"] == 3
    assert looking.for_metrics(files.Files(), str(tmp_path / "none"), None, 1) is None


def sensor(kind: str, **arguments: Any) -> Any:
    from clinker_provider.sensors import looking as sensors

    return getattr(sensors, kind)(task_id="wait", poke_interval=0.01, timeout=5, **arguments)


def test_a_result_is_waited_for(tmp_path: Path, context: Any) -> None:
    waiting = sensor("ClinkerResultSensor", work_dir=tmp_path, execution_id="x")
    assert not waiting.poke(context).is_done
    result.write(tmp_path, result.RunResult("x", 2, records_total=4))
    poked = waiting.poke(context)
    assert poked.is_done
    assert (poked.xcom_value["status"], poked.xcom_value["records_total"]) == ("partial_success", 4)
    (tmp_path / "x" / "result.json").write_text("nonsense")
    with pytest.raises(exceptions.ClinkerIOError, match="not JSON"):
        waiting.poke(context)


@pytest.mark.parametrize("kind", ["ClinkerResultSensor", "ClinkerMetricsSensor"])
def test_waiting_in_the_triggerer(kind: str, tmp_path: Path, context: Any) -> None:
    from airflow.providers.common.compat.sdk import TaskDeferred

    from clinker_provider.triggers.looking import LookingTrigger

    of_result = {"work_dir": tmp_path, "execution_id": "x"}
    waiting = sensor(kind, deferrable=True, **(of_result if kind == "ClinkerResultSensor" else {"spool_dir": tmp_path}))
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context)
    path, arguments = deferred.value.trigger.serialize()
    assert path == "clinker_provider.triggers.looking.LookingTrigger"
    trigger = LookingTrigger(**json.loads(json.dumps(arguments)))

    async def fired() -> Any:
        events = trigger.run()
        task = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.05)
        assert not task.done()
        result.write(tmp_path, result.RunResult("x", 0))
        metrics(tmp_path, "x", "orders")
        return (await asyncio.wait_for(task, 5)).payload

    event = asyncio.run(fired())
    value = waiting.execute_complete(context, event)
    assert value == waiting.execute(context), "which finds it at once now"
    with pytest.raises(exceptions.ClinkerIOError, match="no disk"):
        waiting.execute_complete(context, {"status": "error", "message": "no disk"})


REASONS = [
    {"stage": "transform:t", "field": "qty", "category": "type_coercion_failure", "count": 7,
     "example": {"file": "in.csv", "row": 6, "detail": "cannot convert 'x' to Int"}},
    {"stage": "source:rows", "count": 2},
    {"stage": "a", "count": 1}, {"stage": "b", "count": 1},
]  # fmt: skip


class Task:
    """A task instance whose XComs are these."""

    task_id, dag_id, map_index = "run", "etl", -1

    def __init__(self, **found: Any) -> None:
        self.found = found

    def xcom_pull(self, *, task_ids: str, key: str, map_indexes: int) -> Any:
        assert (task_ids, map_indexes) == ("run", -1)
        return self.found.get(key)


def told(**found: Any) -> list[str]:
    from airflow.providers.common.compat.sdk import DAG

    from clinker_provider.notifications.dead_letters import ClinkerDeadLettersNotifier

    sent: list[str] = []
    notifier = ClinkerDeadLettersNotifier(send=sent.append, subject="{{ ti.dag_id }}")
    notifier({"ti": Task(**found), "dag": DAG("etl", schedule=None)})
    return sent


def test_people_are_told_of_the_first_reasons() -> None:
    (text,) = told(dlq_count=11, dlq_paths=["/o/dead.csv"], dlq_reasons=REASONS)
    assert text.splitlines() == [
        "etl: 11 records died",
        "  7  transform:t, field 'qty', type_coercion_failure",
        "     in.csv, row 6: cannot convert 'x' to Int",
        "  2  source:rows",
        "  1  a",
        "  and 1 more reasons",
        "see /o/dead.csv",
    ]


def test_nobody_is_told_of_a_clean_run() -> None:
    assert told(dlq_count=0) == told() == []


def test_another_notifier_may_send_it() -> None:
    from airflow.providers.common.compat.sdk import DAG, BaseNotifier

    from clinker_provider.notifications.dead_letters import ClinkerDeadLettersNotifier

    seen: list[str] = []

    class Mail(BaseNotifier):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

        def notify(self, context: Any) -> None:
            seen.append(self.text)

    ClinkerDeadLettersNotifier(send=Mail, subject="s")({"ti": Task(dlq_count=1), "dag": DAG("etl", schedule=None)})
    assert seen == ["s: 1 records died"]
    with pytest.raises(ValueError, match="send: there is no module 'nowhere'"):
        ClinkerDeadLettersNotifier(send="nowhere.f")
