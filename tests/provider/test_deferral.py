"""Runs on a cluster that go on without the worker, against REST servers that answer as Spark's and YARN's do."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from clinker_provider import cluster, deferral
from spark_jobs import result
from tests.lazily import LazyModule

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")

DRIVER = "driver-20261127080000-0001"
APPLICATION = "application_1700000000000_0007"
#: The event of a run that left its record.
RECORD = {"status": "record"}


class Rest:
    """A standalone master's REST server and a resource manager in one."""

    def __init__(self) -> None:
        self.state = "RUNNING"
        self.created: list[dict[str, Any]] = []
        self.killed: list[str] = []
        self.tagged: list[dict[str, Any]] = []
        self.refuses = False
        self.is_known = True
        self.is_no_master = False
        #: How long a submission takes.
        self.seconds = 0.0

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        match method, path.split("/")[1:]:
            case "POST", ["v1", "submissions", "create"]:
                self.created.append(body)
                time.sleep(self.seconds)
                if self.refuses:
                    return 200, {"success": False, "message": "Already reached maximum submission size"}
                return 200, {"success": True, "submissionId": DRIVER}
            case "GET", ["v1", "submissions", "status", name]:
                return 200, {"success": self.is_known, "driverState": self.state, "submissionId": name}
            case "POST", ["v1", "submissions", "kill", name]:
                self.killed.append(name)
                return 200, {"success": True}
            case "GET", ["ws", "v1", "cluster", "apps", name]:
                return (200, {"app": {"id": name, "state": self.state}}) if self.is_known else (404, {})
            case "PUT", ["ws", "v1", "cluster", "apps", name, "state"]:
                assert body == {"state": "KILLED"}
                self.killed.append(name)
                return 202, {"state": "KILLED"}
            case "GET", ["ws", "v1", "cluster", listing] if listing.startswith("apps?applicationTags="):
                return 200, {"apps": {"app": self.tagged} if self.tagged else None}
        return 404, {"path": path}


@pytest.fixture
def rest() -> Iterator[tuple[Rest, int]]:
    known = Rest()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            status, found = known.answer(self.command, self.path, body)
            self.send_response(404 if known.is_no_master else status)
            self.end_headers()
            self.wfile.write(b"<html>" if known.is_no_master else json.dumps(found).encode())

        do_GET = do_POST = do_PUT = _any

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield known, server.server_address[1]
        server.shutdown()


class Store(dict[str, Any]):
    """What Airflow 3.3 keeps for a task over its attempts; values are JSON."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))

    def delete(self, key: str) -> None:
        self.pop(key, None)


@pytest.fixture
def context(context: dict[str, Any]) -> dict[str, Any]:
    return {**context, "task_state_store": Store()}


def standalone(spark: Any, monkeypatch: pytest.MonkeyPatch, port: int, **arguments: Any) -> Any:
    connection = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": 7077}
    connection["extra"] = json.dumps({"deploy-mode": "cluster", "rest-port": port})  # type: ignore[assignment]
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))
    arguments = {"env_vars": {"MY_DAY": "monday"}, **arguments}
    return spark.operator(
        {"exit": 0}, master=None, conn_id="cluster", deferrable=True, poll_interval_s=0.01, **arguments
    )


def yarn(spark: Any, monkeypatch: pytest.MonkeyPatch, port: int, **arguments: Any) -> Any:
    connection = {"conn_type": "spark", "host": "yarn"}
    address = f"127.0.0.1:{port}"
    connection["extra"] = json.dumps({"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": address})
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))
    job = {"exit": 0, "print": [f"26/11/27 08:00:00 INFO Client: Submitted application {APPLICATION}"]}
    return spark.operator(job, master=None, conn_id="cluster", deferrable=True, poll_interval_s=0.01, **arguments)


def deferred(operator: Any, context: Any) -> Any:
    from airflow.providers.common.compat.sdk import TaskDeferred

    with pytest.raises(TaskDeferred) as raised:
        operator.execute(context)
    return raised.value


def fired(trigger: Any, meanwhile: Any = None) -> Any:
    """What a trigger's event says; the trigger goes through its serialized form, as in Airflow."""
    path, arguments = trigger.serialize()
    assert path == "clinker_provider.triggers.job.ClusterJobTrigger"
    again = type(trigger)(**json.loads(json.dumps(arguments)))

    async def wait() -> Any:
        task = asyncio.ensure_future(anext(again.run()))
        await asyncio.sleep(0.1)
        if meanwhile:
            assert not task.done()
            meanwhile()
        return (await asyncio.wait_for(task, 10)).payload

    return asyncio.run(wait())


def leave_record(left: Any, code: int, **fields: Any) -> None:
    waiting = left.kwargs["waiting"]
    result.write(Path(waiting["folder"]), result.RunResult(waiting["execution_id"], code, **fields))


def complete(operator: Any, context: Any, left: Any, event: Any) -> Any:
    """Come back in another process: nothing of the first one is there."""
    return getattr(operator, left.method_name)(context, event=event, **json.loads(json.dumps(left.kwargs)))


def test_a_standalone_run_leaves_its_slot_and_comes_back(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    left = deferred(standalone(spark, monkeypatch, port, conf={"spark.a": "1"}), context)
    pushed = context["ti"].pushed
    assert (pushed["application_id"], pushed["master"]) == (DRIVER, "spark://127.0.0.1:7077")
    assert "status" not in pushed, "it has not ended"
    (request,) = known.created
    arguments = request["appArgs"]
    assert request["mainClass"] == "org.apache.spark.deploy.SparkSubmit"
    assert arguments[:4] == ["--deploy-mode", "client", "--master", "spark://127.0.0.1:7077"]
    assert "spark.a=1" in arguments
    assert Path(request["appResource"].removeprefix("file:")).is_file()
    assert request["environmentVariables"]["MY_DAY"] == "monday"
    event = fired(left.trigger, lambda: leave_record(left, 2, records_total=5, dlq_count=1, dlq_path="/d.csv"))
    assert event == {"status": "record"}
    returned = complete(standalone(spark, monkeypatch, port), context, left, event)
    assert (returned["status"], returned["execution_id"]) == ("partial_success", pushed["execution_id"])
    assert (pushed["dlq_count"], pushed["application_id"]) == (1, DRIVER)
    assert list(spark.work.iterdir()) == []
    assert context["task_state_store"] == {}


def test_the_plan_of_the_submission_is_kept_for_the_page_of_the_task(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, port = rest
    spark.pipeline.write_text(
        "pipeline: {name: p}\nnodes:\n"
        "  - {type: source, name: rows, config: {type: csv, path: in.csv, schema: {id: int}}}\n"
        "  - {type: output, name: o, input: rows, config: {type: csv, path: out.csv}}\n"
    )
    left = deferred(standalone(spark, monkeypatch, port, validate="execute"), context)
    pushed = context["ti"].pushed
    at_submission = pushed["on_call"]
    assert set(at_submission["digests"]) == {"rows", "o", ""}
    spark.pipeline.write_text("pipeline: {name: p}\n")
    nodes = {"rows": {"records_in": 5}}
    event = fired(left.trigger, lambda: leave_record(left, 0, records_total=5, nodes=nodes))
    context["ti"].xcom_pull.side_effect = lambda task_ids, key, map_indexes: pushed[key]
    complete(standalone(spark, monkeypatch, port, validate="execute"), context, left, event)
    assert pushed["on_call"] == {**at_submission, "nodes": nodes}


def test_an_application_of_yarn_is_submitted_and_left(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    left = deferred(yarn(spark, monkeypatch, port), context)
    argv = spark.notes["argv"]
    assert "spark.yarn.submit.waitAppCompletion=false" in argv
    assert f"spark.yarn.tags={left.kwargs['waiting']['mark']}" in argv
    assert context["ti"].pushed["application_id"] == APPLICATION
    known.state = "FAILED"
    event = fired(left.trigger)
    assert event == {"status": "ended", "state": "FAILED"}
    with pytest.raises(
        exceptions.ClinkerResultMissing, match=rf"{APPLICATION} ended as FAILED and left no result record"
    ):
        complete(yarn(spark, monkeypatch, port), context, left, event)
    assert context["ti"].pushed["status"] == "failed"


def test_the_record_decides_whatever_the_cluster_says(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    left = deferred(standalone(spark, monkeypatch, port), context)
    known.state = "FINISHED"
    leave_record(left, 3, error=result.RunError("E400", "a record broke it"))
    with pytest.raises(exceptions.ClinkerEvaluationError, match="a record broke it"):
        complete(standalone(spark, monkeypatch, port), context, left, fired(left.trigger))


def test_a_job_that_its_cluster_forgot_is_no_success(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    left = deferred(standalone(spark, monkeypatch, port), context)
    known.is_known = False
    with pytest.raises(exceptions.ClinkerResultMissing, match="ended as GONE"):
        complete(standalone(spark, monkeypatch, port), context, left, fired(left.trigger))


def test_time_that_is_over_ends_the_job(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    left = deferred(standalone(spark, monkeypatch, port, execution_timeout=timedelta(seconds=0.2)), context)
    event = fired(left.trigger)
    assert event == {"status": "timeout"}
    with pytest.raises(exceptions.ClinkerInterrupted, match="longer than the task's execution_timeout"):
        complete(standalone(spark, monkeypatch, port), context, left, event)
    assert known.killed == [DRIVER]
    assert context["ti"].pushed["exit_code"] == 130


def test_a_task_that_is_cleared_while_deferred_ends_its_job(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    left = deferred(standalone(spark, monkeypatch, port), context)
    asyncio.run(left.trigger.on_kill())
    assert known.killed == [DRIVER]


def test_a_trigger_that_failed_leaves_no_job(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.provider.airflow_of import TaskDeferralError

    known, port = rest
    deferred(standalone(spark, monkeypatch, port), context)
    with pytest.raises(TaskDeferralError):
        standalone(spark, monkeypatch, port).resume_execution("__fail__", {"error": "x"}, context)
    assert known.killed == [DRIVER]
    pushed = context["ti"].pushed
    assert (pushed["status"], pushed["application_id"], pushed["reason"]) == ("failed", DRIVER, "x")


def test_a_further_attempt_waits_for_the_job_of_the_first(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    first = deferred(standalone(spark, monkeypatch, port), context)
    context["ti"].try_number = 2
    second = deferred(standalone(spark, monkeypatch, port), context)
    assert len(known.created) == 1, "no job runs twice"
    assert second.kwargs == first.kwargs
    leave_record(first, 0, records_total=4)
    assert standalone(spark, monkeypatch, port).execute(context)["records"]["total"] == 4
    assert len(known.created) == 1
    assert context["task_state_store"] == {}


def test_a_further_attempt_submits_again_when_the_first_is_dead(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    first = deferred(standalone(spark, monkeypatch, port), context)
    known.state, context["ti"].try_number = "FAILED", 2
    second = deferred(standalone(spark, monkeypatch, port), context)
    assert len(known.created) == 2
    assert second.kwargs["waiting"]["execution_id"] != first.kwargs["waiting"]["execution_id"]
    assert not Path(first.kwargs["waiting"]["folder"]).exists()


def test_a_job_that_was_submitted_and_not_remembered_is_found_by_its_mark(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    left = deferred(yarn(spark, monkeypatch, port), context)
    (key,) = context["task_state_store"]
    context["task_state_store"].set(key, {**context["task_state_store"][key], "job": None})  # the worker died here
    known.tagged = [{"id": "application_1_0001", "startedTime": 1}, {"id": APPLICATION, "startedTime": 2}]
    (spark.folder / "notes.json").unlink()
    again = deferred(yarn(spark, monkeypatch, port), context)
    assert again.kwargs["waiting"]["job"]["id"] == APPLICATION
    assert again.kwargs["waiting"]["mark"] == left.kwargs["waiting"]["mark"]
    assert not (spark.folder / "notes.json").exists(), "nothing was submitted"


def test_a_job_that_nobody_answers_for_is_not_submitted_twice(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, port = rest
    deferred(standalone(spark, monkeypatch, port), context)

    def silent(job: Any) -> str:
        raise cluster.ClusterError("nobody there")

    monkeypatch.setattr(cluster, "state_of", silent)
    with pytest.raises(exceptions.ClinkerIOError, match="may still run, and nobody answers for it: nobody there"):
        standalone(spark, monkeypatch, port).execute(context)


def test_a_cluster_that_does_not_answer_for_a_while_is_asked_again(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, port = rest
    left = deferred(standalone(spark, monkeypatch, port), context)

    def silent(job: Any) -> str:
        raise cluster.ClusterError("nobody there")

    monkeypatch.setattr(cluster, "state_of", silent)
    assert fired(left.trigger, lambda: leave_record(left, 0)) == {"status": "record"}


def test_a_master_that_refuses_or_is_away_may_be_asked_by_a_retry(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    known.refuses = True
    with pytest.raises(exceptions.ClinkerIOError, match=r"refuses the application: Already reached .*\n.*rest"):
        standalone(spark, monkeypatch, port).execute(context)
    with pytest.raises(exceptions.ClinkerIOError, match=r"http://127\.0\.0\.1:1 does not answer") as raised:
        standalone(spark, monkeypatch, 1).execute(context)
    assert not isinstance(raised.value, exceptions.AirflowFailException)
    assert list(spark.work.iterdir()) == []


def test_a_slow_master_is_waited_for(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the application when it answers late: a retry would submit a second one."""
    known, port = rest
    monkeypatch.setattr(cluster, "_ANSWER_S", 0.2)
    known.seconds = 0.6
    left = deferred(standalone(spark, monkeypatch, port), context)
    assert left.trigger.job["id"] == DRIVER
    assert len(known.created) == 1


def test_an_address_of_something_else_is_not_asked_again(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, port = rest
    known.is_no_master = True
    with pytest.raises(exceptions.ClinkerConnectionError, match="with status 404 and no JSON") as raised:
        standalone(spark, monkeypatch, port).execute(context)
    assert isinstance(raised.value, exceptions.AirflowFailException)


def test_other_modes_stay_with_their_worker(spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 0, "record": {}}, deferrable=True)
    assert operator.execute(context)["status"] == "success"
    assert list(spark.work.iterdir()) == []
    hook: Any = SimpleNamespace(master="k8s://https://h:443", shown_master="k8s://https://h:443")
    with pytest.raises(exceptions.ClinkerConfigError, match="of a standalone master or of YARN, and the master is k8s"):
        deferral.prepared(hook, spark.folder, "x")


def test_secrets_are_in_nothing_that_airflow_keeps(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, port = rest
    secret = {"MY_TOKEN": "LEAK-token-9"}
    left = deferred(
        standalone(spark, monkeypatch, port, env_vars=secret, conf={"spark.x.secret": "LEAK-conf-8"}), context
    )
    kept = [left.kwargs, left.trigger.serialize(), dict(context["task_state_store"]), context["ti"].pushed]
    assert "LEAK" not in json.dumps(kept, default=str)


def function(spark: Any, monkeypatch: pytest.MonkeyPatch, port: int, asked: Any, **arguments: Any) -> Any:
    """The operator of `@task.clinker` with a function, whose runs are deferred."""
    from clinker_provider.decorators.clinker import ClinkerDecoratedOperator

    usual = standalone(spark, monkeypatch, port)
    taken = {name: getattr(usual, name) for name in ("conn_id", "deferrable", "work_dir", "env_vars")}
    return ClinkerDecoratedOperator(
        task_id="run", python_callable=asked, **{"validate": "off", **taken, **arguments}
    )  # fmt: skip


def test_what_a_function_gave_is_known_when_the_run_has_ended(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def task() -> Any:
        return function(spark, monkeypatch, rest[1], lambda: str(spark.pipeline))

    left = deferred(task(), context)
    leave_record(left, 0, records_total=2)
    complete(task(), context, left, {"status": "record"})
    assert context["ti"].pushed["pipeline_path"] == str(spark.pipeline)


def test_variables_that_a_function_gave_are_known_when_the_run_has_ended(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def variables() -> dict[str, Any]:
        asked.append(1)
        return {"DAY": f"day {len(asked)}", "MY_TOKEN": "LEAK-token-7"}

    def task() -> Any:
        return function(spark, monkeypatch, rest[1], variables, pipeline=str(spark.pipeline))

    left = deferred(task(), context)
    kept = [left.kwargs, left.trigger.serialize(), dict(context["task_state_store"]), context["ti"].pushed]
    assert "LEAK" not in json.dumps(kept, default=str)
    leave_record(left, 2, dlq_count=1, dlq_reasons=[{"category": "c", "message": "got LEAK-token-7", "count": 1}])
    back = task()
    complete(back, context, left, {"status": "record"})
    assert back.env_vars["DAY"] == "day 1", "as the run had it, whatever the function gives now"
    assert back.env_vars["MY_DAY"] == "monday"
    assert back.env_vars["MY_TOKEN"] == "LEAK-token-7"
    assert "LEAK" not in json.dumps(context["ti"].pushed, default=str), "a secret is hidden in what the run tells"


def test_a_function_without_secrets_is_asked_once(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def task() -> Any:
        given = lambda: asked.append(1) or {"DAY": 7}  # noqa: E731
        return function(spark, monkeypatch, rest[1], given, pipeline=str(spark.pipeline))

    left = deferred(task(), context)
    leave_record(left, 0)
    back = task()
    complete(back, context, left, {"status": "record"})
    assert (back.env_vars["DAY"], len(asked)) == ("7", 1)


def test_a_function_that_fails_later_does_not_fail_the_run(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = str(spark.pipeline)
    left = deferred(function(spark, monkeypatch, rest[1], lambda: {"MY_TOKEN": "LEAK-1"}, pipeline=pipeline), context)
    leave_record(left, 0)

    def broken() -> dict[str, Any]:
        raise OSError("no vault")

    returned = complete(function(spark, monkeypatch, rest[1], broken, pipeline=pipeline), context, left, RECORD)
    assert returned["status"] == "success"


@pytest.mark.parametrize("code", [0, 3])
def test_a_pipeline_that_a_function_gave_is_there_while_its_run_is_deferred(
    code: int, rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def task() -> Any:
        given = lambda: {"pipeline": {"name": "made"}, "nodes": []}  # noqa: E731
        return function(spark, monkeypatch, rest[1], given, base_dir=str(spark.folder))

    left = deferred(task(), context)
    made = Path(left.kwargs["pipeline"])
    assert json.loads(made.read_text())["pipeline"] == {"name": "made"}, "the driver reads it when it starts"
    assert deferred(task(), context).kwargs["pipeline"] == str(made), "a further attempt waits for the same job"
    assert len(rest[0].created) == 1
    leave_record(left, code)
    if code:
        with pytest.raises(exceptions.ClinkerEvaluationError):
            complete(task(), context, left, RECORD)
    else:
        complete(task(), context, left, RECORD)
    assert list(spark.work.iterdir()) == []


def test_a_record_of_a_deleted_run_of_the_same_name_is_not_taken(
    rest: tuple[Rest, int], spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = deferred(standalone(spark, monkeypatch, rest[1]), context)
    leave_record(left, 0)
    context["task_state_store"].clear()
    again = deferred(standalone(spark, monkeypatch, rest[1]), context)
    assert again.kwargs["waiting"]["folder"] == left.kwargs["waiting"]["folder"]
