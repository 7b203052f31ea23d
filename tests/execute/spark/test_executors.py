"""Clusters that give no executor: when that is said, and when it ends a run."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract import ExitCode
from spark_jobs.execute.spark import cancellation, executors
from spark_jobs.execute.spark.executors import StartupWatch
from spark_jobs.execute.verdict import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """What `time.monotonic` says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(executors.time, "monotonic", lambda: self.now)


@pytest.mark.parametrize(
    ("setting", "seconds"),
    [
        (None, 300), ("", 300), ("90", 90), ("90s", 90), ("5min", 300), ("2m", 120), ("1h", 3600), ("1d", 86400),
        ("500ms", 0.5), ("0", 0), (" 10 S ", 10),
    ],
)  # fmt: skip
def test_limits_are_written_as_spark_writes_times(setting: str | None, seconds: float) -> None:
    assert executors.limit_s(setting) == seconds


def test_a_limit_that_makes_no_sense_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="clinker.run"):
        assert executors.limit_s("soon") == 300
    assert "'soon' is not a time" in caplog.text


def test_what_is_waited_for_is_told_now_and_then_and_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(monkeypatch)
    watch = StartupWatch(lambda: 180.0)
    with caplog.at_level(logging.WARNING, logger="clinker.run"):
        for second in range(180):
            clock.now = 1000.0 + second
            watch.look("there is no executor")
        clock.now += 1
        with pytest.raises(RunFailed) as caught:
            watch.look("there is no executor")
    assert caplog.messages == [
        "for 10 s there is no executor; waiting, for 170 s more",
        "for 70 s there is no executor; waiting, for 110 s more",
        "for 130 s there is no executor; waiting, for 50 s more",
    ]
    assert (caught.value.exit_code, caught.value.code) == (ExitCode.IO, "E904")
    assert caught.value.message.startswith("for 180 s there is no executor; ")
    assert executors.LIMIT_SETTING in caught.value.message


def test_what_goes_on_is_waited_for_anew(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(monkeypatch)
    watch = StartupWatch(lambda: 100.0)
    with caplog.at_level(logging.WARNING, logger="clinker.run"):
        for second in range(0, 500, 5):
            clock.now = 1000.0 + second
            watch.look(None if second % 50 == 45 else "none")
    assert caplog.messages[:2] == ["for 10 s none; waiting, for 90 s more", "the work goes on"]


def test_nothing_is_ended_that_was_not_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A busy computer may look too late."""
    clock = Clock(monkeypatch)
    watch = StartupWatch(lambda: 20.0)
    watch.look("none")
    clock.now += 25
    watch.look("none")
    assert caplog.messages == ["for 25 s none; waiting, for 0 s more"]
    clock.now += 1
    with pytest.raises(RunFailed, match="for 26 s none"):
        watch.look("none")


def test_no_limit_is_for_ever(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(monkeypatch)
    watch = StartupWatch(lambda: 0.0)
    for hour in range(100):
        clock.now = 1000.0 + 3600 * hour
        watch.look("none")
    assert "for 3600 s none; waiting" in caplog.text


class Cluster:
    """A session of a cluster whose stage has `running` tasks, and `count` executors."""

    def __init__(self, running: int = 0, count: int = 0, **conf: str) -> None:
        known = {executors.LIMIT_SETTING: "1s", **conf}
        tracker = SimpleNamespace(
            getActiveStageIds=lambda: [1, 2],
            getStageInfo=lambda number: SimpleNamespace(numActiveTasks=running) if number == 1 else None,
        )
        status = SimpleNamespace(size=lambda: count + 1)
        self.sparkContext = SimpleNamespace(
            master="spark://host:7077",
            statusTracker=lambda: tracker,
            getConf=lambda: known,
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status)),
        )
        self.conf = known
        self.interrupted: list[str] = []

    def addTag(self, tag: str) -> None:
        """Jobs of this thread are known by it."""

    def interruptTag(self, tag: str) -> None:
        self.interrupted.append(tag)


def run(spark: object, job: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(executors, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(executors, "NOTICE_AFTER_S", 0.1)
    monkeypatch.setattr(StartupWatch.__init__, "__defaults__", (0.1,))
    monkeypatch.setattr(cancellation, "_PAUSE_S", 0.05)
    monkeypatch.setattr(cancellation, "_TIMEOUT_S", 0.1)
    return cancellation.cancellable(spark, job)  # type: ignore[arg-type]


def for_ever() -> str:
    time.sleep(60)
    return "done"


def test_a_job_without_executors_is_told_cancelled_and_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spark = Cluster(**{"spark.executor.memory": "4g", "spark.executor.cores": "2", "spark.executor.instances": "3"})
    with pytest.raises(RunFailed) as caught:
        run(spark, for_ever, monkeypatch)
    says = "spark://host:7077 has given no executor: 3 wanted, with 4g of memory (spark.executor.memory) and 2 cores"
    assert says in caught.value.message
    assert says in caplog.text
    assert len(spark.interrupted) == 1


def test_executors_that_take_no_task_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunFailed, match="none of 2 executors of spark://host:7077 has taken a task"):
        run(Cluster(count=2), for_ever, monkeypatch)


def test_tasks_that_run_are_left_alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def slowly() -> str:
        time.sleep(1.5)
        return "done"

    assert run(Cluster(running=1), slowly, monkeypatch) == "done"
    assert caplog.messages == []


def test_a_status_that_cannot_be_had_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Cluster()
    spark.sparkContext.statusTracker = lambda: 1 / 0
    assert run(spark, lambda: "done", monkeypatch) == "done"


class Server:
    """A session of a Connect server, which tells the progress of its tasks."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self, inflight: int) -> None:
        self.conf = {executors.LIMIT_SETTING: "1s"}
        self.inflight = inflight
        self.handlers: list[Any] = []

    def addTag(self, tag: str) -> None:
        """The client keeps it."""

    interruptTag = addTag

    def registerProgressHandler(self, handler: Any) -> None:
        self.handlers.append(handler)
        stage = SimpleNamespace(num_tasks=4, num_completed_tasks=1)
        handler([stage], inflight_tasks=self.inflight, operation_id="1", done=False)

    def removeProgressHandler(self, handler: Any) -> None:
        self.handlers.remove(handler)


def test_a_server_without_free_executors_ends_the_run_too(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(inflight=0)
    with pytest.raises(RunFailed, match="the server has run none of 3 tasks"):
        run(server, for_ever, monkeypatch)
    assert server.handlers == []


def test_a_server_at_work_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly() -> str:
        time.sleep(1.5)
        return "done"

    assert run(Server(inflight=1), slowly, monkeypatch) == "done"
