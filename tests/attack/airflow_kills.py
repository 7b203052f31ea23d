"""A real Airflow whose processes are killed at random moments while a DAG runs: its tasks succeed all the same.

A round starts a run of a DAG with a pipeline and, beside it, a sensor that waits in the triggerer for the pipeline's
dead letters. Then it kills, without a warning, the process of the pipeline's task, the worker that watches it, the JVM,
or the triggerer, which is started again. Afterwards both tasks have succeeded, by a further attempt where one was
killed; the files are all of this run; no process of Spark is left.
"""

from __future__ import annotations

import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from clinker_provider import process_tree
from tests.attack import rounds
from tests.provider.real_airflow import Airflow, running
from tests.waiting import until

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

DAG = "killed"
DAG_FILE = """
from datetime import datetime, timedelta

from airflow.sdk import dag

from clinker_provider.operators.spark import ClinkerSparkOperator
from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

NUMBER = "{{{{ dag_run.conf['number'] }}}}"


@dag(dag_id="killed", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1)
def killed():
    ClinkerSparkOperator(
        task_id="run", pipeline="{folder}/p.yaml", master="local[1]", force=True, env_vars={{"NUMBER": NUMBER}},
        retries=3, retry_delay=timedelta(seconds=1),
    )
    ClinkerDeadLettersSensor(
        task_id="letters", path=f"{folder}/letters/{{NUMBER}}.csv", deferrable=True, poke_interval=0.5, timeout=1200,
        retries=3, retry_delay=timedelta(seconds=1),
    )


killed()
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
#: A dead worker or triggerer is noticed after so many seconds, not after minutes.
SETTINGS = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
}
TARGETS = ("task", "worker", "jvm", "triggerer")
#: What the processes of a run may take to end after the run.
_LIMIT_S = 60.0
_RUN = re.compile(r"run-(\d+)")


class Rounds:
    """The rounds of one Airflow: each begins where the one before ended."""

    def __init__(self, airflow: Airflow, folder: Path) -> None:
        self.airflow, self.folder = airflow, folder
        self.number = 0
        #: What a run takes that nobody kills, as the last one of them took.
        self.takes = 0.0
        # The first run waits for Airflow to know the DAG, the second does not.
        for _ in range(2):
            self._start()
            began = time.monotonic()
            self._expect_new_files()
            self.takes = time.monotonic() - began

    def play(self, chance: random.Random) -> str:
        """Kill something in a run, and look at the end of the run; gives what became of it."""
        target, delay = chance.choice(TARGETS), chance.random() * self.takes
        self._start()
        began = time.monotonic()
        time.sleep(delay)
        is_over = self.airflow.state(DAG, f"r{self.number}") == "success"
        hit = self._kill(target)
        attempts = self._expect_new_files()
        if not hit:
            self.takes = time.monotonic() - began
        what = f"{target} {'killed' if hit else 'was not there'}{', after the run' if is_over else ''}"
        print(f"round {self.number}: {what} after {delay:.1f} s; {attempts} attempts of the pipeline", flush=True)
        return what

    def _start(self) -> None:
        self.number += 1
        lines = "".join(f"{n},run-{self.number}\n" for n in range(ROWS))
        (self.folder / "rows.csv").write_text(f"n,run\n{lines}")
        self.airflow.trigger(DAG, f"r{self.number}", number=self.number)

    def _kill(self, target: str) -> bool:
        if target == "triggerer":
            self.airflow.kill(target)
            self.airflow.start(target)
            return True
        found = _of_task(self.airflow.tasks, f"{DAG}.run.r{self.number}.", target)
        if found is not None:
            found.send_signal(signal.SIGKILL)
        return found is not None

    def _expect_new_files(self) -> int:
        """Look at the end of the run; gives how many attempts the pipeline took."""
        run = f"r{self.number}"
        state = self.airflow.ended(DAG, run)
        states = self.airflow.task_states(DAG, run)
        assert state == "success", f"the run of the DAG is {state}: {states}"
        assert {name: each for name, (each, _) in states.items()} == dict.fromkeys(("run", "letters"), "success")
        for name, count in FILES.items():
            found = _RUN.findall((self.folder / name).read_text())
            assert set(found) == {str(self.number)}, f"{name} has records of the runs {set(found)}"
            assert len(found) == count, f"{name} has {len(found)} records"
        letters = (self.folder / "letters" / f"{self.number}.csv").read_text().splitlines()
        assert len(letters) == 1 + ROWS // 50, f"{len(letters)} lines of dead letters"
        assert until(lambda: not _marked(f"{DAG}.run."), _LIMIT_S), f"still there: {_marked(f'{DAG}.run.')}"
        for folder in ("out", "other", "letters"):
            left = [path.name for path in (self.folder / folder).iterdir() if path.name.startswith(".")]
            assert not [name for name in left if not name.startswith(".clinker-once-")], left
        return states["run"][1]


def _of_task(family: list[psutil.Process], mark: str, target: str) -> psutil.Process | None:
    """The process of a kind that works for a task; None where there is none yet, or no more."""
    for each in family:
        try:
            if "java" not in each.name() or not each.environ().get(process_tree.MARK, "").startswith(mark):
                continue
            if target == "jvm":
                return each
            # The JVM is a child of the task, and the task one of the worker that watches it.
            task = each.parent()
            return task if target == "task" or task is None else task.parent()
        except psutil.Error:
            continue
    return None


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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    chosen = rounds.parser("airflow_kills", 100, "processes of a real Airflow killed at random").parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="clinker-airflow-kills-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "dags").mkdir()
        (folder / "dags" / "killed.py").write_text(DAG_FILE.format(folder=folder))
        (folder / "p.yaml").write_text(PIPELINE)
        with running(folder, folder / "dags", SETTINGS) as airflow:
            return rounds.in_one_folder("airflow_kills", chosen, lambda _: Rounds(airflow, folder).play)


if __name__ == "__main__":
    sys.exit(main())
