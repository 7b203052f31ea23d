"""A real Airflow whose processes are killed at random moments while a DAG runs: its tasks succeed all the same.

A round starts a run of a DAG with a pipeline and, beside it, a sensor that waits in the triggerer for the pipeline's
dead letters. The pipeline runs on an embedded Spark, on a standalone cluster with its driver in the task, or there with
its driver on the cluster while the task waits in the triggerer. Then one thing is killed without a warning: a process
of the run (task, worker, driver, JVM, executor) or a service (scheduler with or without its workers, triggerer, API
server, database). Services are started again, as a service manager does. Afterwards both tasks have succeeded, by a
further attempt where one was killed; the files are all of this run, which has published once; no process is left.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from clinker_provider import process_tree
from tests import postgres
from tests.attack import rounds
from tests.cluster import Cluster, standalone
from tests.provider.real_airflow import PATIENCE_S, Airflow, running
from tests.waiting import until

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

DAG_FILE = """
import sys
from datetime import datetime, timedelta

from airflow.sdk import dag

from clinker_provider.operators.spark import ClinkerSparkOperator
from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

NUMBER = "{{ dag_run.conf['number'] }}"
PYTHON = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
SMALL = {"driver_memory": "512m", "executor_memory": "512m", "conf": {"spark.cores.max": "1"}}
OF = {
    "embedded": {"master": "local[1]"},
    "client": {"conn_id": "client", **SMALL},
    "deferred": {
        "conn_id": "cluster", "deferrable": True, "poll_interval_s": 0.5, **SMALL,
        "conf": {**SMALL["conf"], "spark.executorEnv.PYSPARK_PYTHON": sys.executable},
    },
}


def tasks_of(kind, folder):
    @dag(dag_id=kind, schedule=None, start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
    def killed():
        again = {"retries": 4, "retry_delay": timedelta(seconds=1)}
        ClinkerSparkOperator(
            task_id="run", pipeline=f"{folder}/p.yaml", force=True, env_vars={"NUMBER": NUMBER, **PYTHON},
            metrics_spool_dir=f"{folder}/spool/{NUMBER}", work_dir=f"{folder}/work", **OF[kind], **again,
        )
        ClinkerDeadLettersSensor(
            task_id="letters", path=f"{folder}/letters/{NUMBER}.csv", deferrable=True, poke_interval=0.5, timeout=1200,
            **again,
        )

    killed()


for each in OF:
    tasks_of(each, f"FOLDER/{each}")
"""
PIPELINE = """
pipeline: {name: killed}
error_handling: {strategy: continue, dlq: {path: "letters/${NUMBER}.csv"}}
nodes:
  - {type: source, name: rows, config: {type: csv, path: rows.csv, schema: {n: int, run: string}}}
  - {type: transform, name: checked, input: rows, config: {cxl: "emit part = n % 7\\nemit bad = 1 / (n % 50)"}}
  - {type: aggregate, name: groups, input: checked, config: {group_by: [run, part], cxl: "emit rows = count(*)"}}
  - {type: output, name: plain, input: checked, config: {type: csv, path: out/plain.csv}}
  - {type: output, name: groups_out, input: groups, config: {type: csv, path: other/groups.csv}}
"""
ROWS = 2000
FILES = {"out/plain.csv": ROWS - ROWS // 50, "other/groups.csv": 7}
#: A dead worker, triggerer or scheduler is noticed after so many seconds, not after minutes.
SETTINGS = {
    "AIRFLOW__CORE__PARALLELISM": "3",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
}
#: The settings of the cluster's master.
REST = "spark.master.rest.enabled true\nspark.master.rest.host 127.0.0.1\nspark.master.rest.port 0\n"
_SERVICES = ("triggerer", "scheduler", "scheduler alone", "api-server", "database")
#: The targets of the DAGs, by the place of their driver.
TARGETS = {
    "embedded": ("task", "worker", "jvm", *_SERVICES),
    "client": ("task", "worker", "jvm", "executor", *_SERVICES),
    "deferred": ("driver", "executor", "task", "worker", "task that comes back", "worker that comes back", *_SERVICES),
}
_COMES_BACK = " that comes back"
#: Seconds between two looks for a process.
_PAUSE_S = 0.2
#: The time in seconds until the processes of a run that has ended are gone.
_LIMIT_S = 60.0
_RUN = re.compile(r"run-(\d+)")
_REST_PORT = re.compile(r"REST server for submitting applications on \S+ with port (\d+)")


class Rounds:
    """The rounds of one Airflow: each begins where the one before ended.

    Args:
        airflow: the Airflow.
        folder: the folder with one folder for each DAG.
        cluster: the cluster of the DAGs that need one.
        database: Airflow's database, if it is a server.
    """

    def __init__(self, airflow: Airflow, folder: Path, cluster: Cluster, database: postgres.Server | None) -> None:
        self.airflow, self.folder, self.cluster, self.database = airflow, folder, cluster, database
        self.number = 0
        #: The duration in seconds of a run of each DAG that nobody kills, as the last of them took.
        self.takes: dict[str, float] = {}
        #: How many seconds each process of a run is there, by DAG and target.
        self.lasts: dict[tuple[str, str], float] = {}
        for dag in TARGETS:
            # The first run waits for Airflow to know the DAG, the second does not.
            for _ in range(2 if dag == "embedded" else 1):
                self._start(dag)
                self.takes[dag] = self._measure(dag)
                self._expect_new_files(dag)
        told = {f"{dag} {target}": round(seconds, 1) for (dag, target), seconds in self.lasts.items()}
        print(f"runs take {self.takes}, their processes last {told}", flush=True)

    def play(self, chance: random.Random) -> str:
        """Kill something in a run, and look at the end of the run; gives a word for the outcome."""
        dag = chance.choice([*TARGETS])
        known = [each for each in TARGETS[dag] if each != "database" or self.database]
        target, share = chance.choice(known), chance.random()
        self._start(dag)
        began = time.monotonic()
        if target in _SERVICES:
            time.sleep(share * self.takes[dag])
        else:
            self._wait_for(dag, target)
            # A machine with less to do than when this was measured is faster.
            time.sleep(0.8 * share * self.lasts[dag, target])
        delay = time.monotonic() - began
        is_over = self._state(dag) == "success"
        hit = self._kill(dag, target)
        attempts = self._expect_new_files(dag)
        if not hit:
            # The machine is faster than it was at the beginning.
            self.lasts[dag, target] *= 0.8
        elif is_over:
            self.takes[dag] *= 0.9
        what = f"{dag}: {target} {'killed' if hit else 'was not there'}{', after the run' if is_over else ''}"
        took = time.monotonic() - began
        print(
            f"round {self.number}: {what} after {delay:.1f} s; {attempts} attempts of the pipeline, {took:.0f} s",
            flush=True,
        )
        return what

    def _measure(self, dag: str) -> float:
        """Watch a run to its end; gives its seconds, and keeps how long its processes are there."""
        began = time.monotonic()
        first: dict[str, float] = {}
        came_back = False
        while self._state(dag) not in ("success", "failed") and time.monotonic() < began + PATIENCE_S:
            came_back = came_back or self._is_deferred(dag)
            for target in {*TARGETS[dag]} - {*_SERVICES}:
                # A process that comes back is another one than the first of its kind.
                if target.endswith(_COMES_BACK) != came_back and target.startswith(("task", "worker")):
                    continue
                if self._find(dag, target):
                    now = time.monotonic()
                    self.lasts[dag, target] = now - first.setdefault(target, now)
            time.sleep(_PAUSE_S)
        missing = [target for target in TARGETS[dag] if target not in (*_SERVICES, *first)]
        for target in missing:
            self.lasts[dag, target] = 1.0
        return time.monotonic() - began

    def _wait_for(self, dag: str, target: str) -> None:
        """Wait until a process of the run is there, or the run is over."""
        if target.endswith(_COMES_BACK):
            until(lambda: self._is_deferred(dag) or self._is_over(dag), PATIENCE_S, every=_PAUSE_S)
            # The process that has left its slot is there for a moment still.
            until(lambda: not self._find(dag, target) or self._is_over(dag), PATIENCE_S, every=_PAUSE_S)
        until(lambda: self._find(dag, target) or self._is_over(dag), PATIENCE_S, every=_PAUSE_S)

    def _is_over(self, dag: str) -> bool:
        return self._state(dag) in ("success", "failed")

    def _is_deferred(self, dag: str) -> bool:
        found = self._task(dag)
        return bool(found) and found["state"] == "deferred"

    def _task(self, dag: str) -> dict[str, Any]:
        """Airflow's account of the pipeline's task; empty if it has none now."""
        status, text = self.airflow.get(f"/api/v2/dags/{dag}/dagRuns/r{self.number}/taskInstances/run")
        found: dict[str, Any] = json.loads(text) if status == 200 else {}
        return found

    def _start(self, dag: str) -> None:
        self.number += 1
        lines = "".join(f"{n},run-{self.number}\n" for n in range(ROWS))
        (self.folder / dag / "rows.csv").write_text(f"n,run\n{lines}")
        self.airflow.trigger(dag, f"r{self.number}", number=self.number)

    def _kill(self, dag: str, target: str) -> bool:
        match target:
            case "database":
                assert self.database is not None
                self.database.kill()
                time.sleep(1)
                self.database.start()
                return True
            case "scheduler alone":
                self.airflow.kill("scheduler", with_family=False)
                self.airflow.start("scheduler")
                return True
            case "triggerer" | "scheduler" | "api-server":
                self.airflow.kill(target)
                self.airflow.start(target)
                return True
        found = self._find(dag, target)
        if found is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            found.send_signal(signal.SIGKILL)
        return True

    def _find(self, dag: str, target: str) -> psutil.Process | None:
        """A process of the run; None where there is none yet, or no more."""
        mark = f"{dag}.run.r{self.number}."
        if target in ("executor", "driver"):
            return self._on_cluster(target, mark)
        if target == "jvm":
            return _jvm(self.airflow.tasks, mark)
        task = self._task(dag).get("id")
        # Airflow gives both processes titles that end with the task's id.
        title = f"airflow worker -- {'LocalExecutor: ' if target.startswith('worker') else ''}{task}"
        return next((each for each in self.airflow.tasks if task and _title(each) == title), None)

    def _on_cluster(self, target: str, mark: str = "") -> psutil.Process | None:
        """An executor, or the driver of a run, on the cluster; None where there is none yet, or no more."""
        for each in self._of_cluster():
            try:
                words = each.cmdline()
                if "java" not in each.name():
                    continue
                is_executor = any("CoarseGrainedExecutorBackend" in word for word in words)
                if is_executor if target == "executor" else each.environ().get(process_tree.MARK, "").startswith(mark):
                    return each
            except psutil.Error:
                continue
        return None

    def _of_cluster(self) -> list[psutil.Process]:
        """The processes that the cluster has started, without those that have ended."""
        started = [each for pid in self.cluster.process_ids for each in psutil.Process(pid).children(recursive=True)]
        return [each for each in started if _is_alive(each)]

    def _state(self, dag: str) -> str:
        """The state of the run, or the reason why Airflow does not know it now."""
        try:
            return self.airflow.state(dag, f"r{self.number}")
        except (AssertionError, KeyError, ValueError) as error:
            return f"unknown: {error}"

    def _ended(self, dag: str) -> str:
        """Wait for the end of the run, and start again every service that ends meanwhile."""

        def is_over() -> bool:
            self.airflow.start_again_what_has_ended()
            return self._state(dag) in ("success", "failed")

        until(is_over, PATIENCE_S, every=0.5)
        return self._state(dag)

    def _expect_new_files(self, dag: str) -> int:
        """Look at the end of the run; gives the number of the pipeline's attempts."""
        folder, run = self.folder / dag, f"r{self.number}"
        state = self._ended(dag)
        states = self.airflow.task_states(dag, run)
        assert state == "success", f"the run of {dag} is {state}: {states}"
        assert {name: each for name, (each, _) in states.items()} == dict.fromkeys(("run", "letters"), "success")
        for name, count in FILES.items():
            found = _RUN.findall((folder / name).read_text())
            assert set(found) == {str(self.number)}, f"{name} has records of the runs {set(found)}"
            assert len(found) == count, f"{name} has {len(found)} records"
        letters = (folder / "letters" / f"{self.number}.csv").read_text().splitlines()
        assert len(letters) == 1 + ROWS // 50, f"{len(letters)} lines of dead letters"
        spool = folder / "spool" / str(self.number)
        published = [*map(_exit_code, spool.glob("*.json"))].count(2)
        # A run that is killed between its files and its metrics has published, and its retry does nothing.
        assert published <= 1, f"{published} attempts have published"
        assert until(lambda: not _marked(f"{dag}.run."), _LIMIT_S), f"still there: {_marked(f'{dag}.run.')}"
        assert until(lambda: not self._of_cluster(), _LIMIT_S), f"still there: {self._of_cluster()}"
        for name in ("out", "other", "letters"):
            left = [path.name for path in (folder / name).iterdir() if path.name.startswith(".")]
            assert not [each for each in left if not each.startswith(".clinker-once-")], left
        return states["run"][1]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _exit_code(metrics: Path) -> Any:
    return json.loads(metrics.read_text()).get("exit_code")


def _jvm(family: list[psutil.Process], mark: str) -> psutil.Process | None:
    """The JVM that works for a task; None where there is none yet, or no more."""
    for each in family:
        with contextlib.suppress(psutil.Error):
            if "java" in each.name() and each.environ().get(process_tree.MARK, "").startswith(mark):
                return each
    return None


def _title(process: psutil.Process) -> str:
    """The title that a process has given itself."""
    try:
        return " ".join(process.cmdline()).strip()
    except psutil.Error:
        return ""


def _marked(mark: str) -> list[list[str]]:
    """The commands of all processes of Spark whose execution has a name that begins so."""
    found = []
    for each in psutil.process_iter():
        try:
            if each.status() != psutil.STATUS_ZOMBIE and each.environ().get(process_tree.MARK, "").startswith(mark):
                found.append(each.cmdline()[:3])
        except psutil.Error:
            continue
    return found


@contextlib.contextmanager
def _cluster(folder: Path) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """A cluster with a REST server, and the connections to it as variables of Airflow's environment."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (conf / "spark-defaults.conf").write_text(REST)
    with standalone(folder, conf_dir=conf, cores=2, memory="2g") as found:
        port = _REST_PORT.search((folder / "master.log").read_text())
        assert port, "the master has no REST server"
        host, _, number = found.master.rpartition(":")
        connection = {"conn_type": "spark", "host": host, "port": int(number)}
        extra = {"deploy-mode": "cluster", "rest-port": int(port[1])}
        yield (
            found,
            {
                "AIRFLOW_CONN_CLIENT": json.dumps(connection),
                "AIRFLOW_CONN_CLUSTER": json.dumps({**connection, "extra": extra}),
            },
        )


@contextlib.contextmanager
def _database(kind: str) -> Iterator[tuple[postgres.Server | None, Mapping[str, str]]]:
    """Airflow's database of a kind, with the settings for it."""
    if kind == "sqlite":
        yield None, {}
        return
    with postgres.restartable("airflow", postgres.PASSWORD) as server:
        at = f"airflow:{postgres.PASSWORD}@127.0.0.1:{server.port}/postgres"
        yield server, {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{at}"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    known = rounds.parser("airflow_kills", 100, "processes of a real Airflow killed at random")
    known.add_argument("--database", choices=("sqlite", "postgres"), default="postgres", help="Airflow's database")
    chosen = known.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="clinker-airflow-kills-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        (folder / "dags").mkdir()
        (folder / "dags" / "killed.py").write_text(DAG_FILE.replace("FOLDER", str(folder)))
        for dag in TARGETS:
            (folder / dag / "work").mkdir(parents=True)
            (folder / dag / "p.yaml").write_text(PIPELINE)
        database, settings = stack.enter_context(_database(chosen.database))
        cluster, connections = stack.enter_context(_cluster(folder / "cluster"))
        airflow = stack.enter_context(running(folder, folder / "dags", {**SETTINGS, **settings, **connections}))
        return rounds.in_one_folder("airflow_kills", chosen, lambda _: Rounds(airflow, folder, cluster, database).play)


if __name__ == "__main__":
    sys.exit(main())
