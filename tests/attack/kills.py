"""Drivers killed at random moments: all files are of one run, the last one or the one before, and nothing else is left.

A round forks a driver whose records carry the round's number, and kills it after a random part of the time that a whole
run takes. `--correlated` kills runs that repeat their pass, between passes and in them. By default everything runs
without Spark; `--real` starts `clinker run` on embedded Spark and kills the driver, its whole group, the JVM or a
Python worker.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute.delivery.local import recovery
from tests.attack import rounds
from tests.execute import correlated_runs, pipelines, without_spark

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

PIPELINE = """
pipeline: {name: killed}
error_handling: {strategy: continue, dlq: {path: letters/dead.csv}}
nodes:
  - {type: source, name: rows, config: {type: csv, glob: "rows-*.csv", schema: {n: int, run: string}}}
  - {type: source, name: side, config: {type: csv, path: side.csv, schema: {n: int, word: string}}}
  - {type: transform, name: checked, input: rows, config: {cxl: "emit part = n % 7\\nemit bad = 1 / (n % 50)"}}
  - {type: transform, name: once, input: checked, config: {cxl: "distinct by part"}}
  - {type: aggregate, name: groups, input: checked, config: {group_by: [run, part], cxl: "emit rows = count(*)"}}
  - type: combine
    name: joined
    input: {checked: checked, side: side}
    config:
      where: "checked.part == side.n"
      cxl: "emit n = checked.n\\nemit run = checked.run\\nemit word = side.word"
      match: first
      on_miss: skip
      drive: checked
  - {type: output, name: plain, input: checked, config: {type: csv, path: out/plain.csv}}
  - {type: output, name: json, input: checked, config: {type: json, path: other/all.json}}
  - {type: output, name: sorted, input: checked, config: {type: csv, path: out/sorted.csv, sort_order: [part, n]}}
  - {type: output, name: cut, input: checked, config: {type: csv, path: out/cut.csv, split: {max_records: 700}}}
  - {type: output, name: each, input: checked, config: {type: csv, path: "each/{source_file}.csv"}}
  - {type: output, name: once_out, input: once, config: {type: csv, path: out/once.csv}}
  - {type: output, name: groups_out, input: groups, config: {type: csv, path: other/groups.csv}}
  - {type: output, name: joined_out, input: joined, config: {type: csv, path: joined/joined.csv}}
"""
FOLDERS = ("out", "other", "each", "joined", "letters")
_RUN = re.compile(r"run-(\d+)")
_TARGETS = ("driver", "group", "jvm", "worker")
#: What a killed run's other processes may take to end.
_LIMIT_S = 30.0
_TICK_S = 0.002


def prepare(folder: Path, number: int, rows: int) -> None:
    """The inputs of a run; each record has its number."""
    for file in range(3):
        lines = "".join(f"{n},run-{number}\n" for n in range(file * rows // 3, (file + 1) * rows // 3))
        (folder / f"rows-{file}.csv").write_text(f"n,run\n{lines}")
    (folder / "side.csv").write_text("n,word\n" + "".join(f"{n},w{n}\n" for n in range(5)))
    (folder / "p.yaml").write_text(PIPELINE)


def prepare_correlated(folder: Path, number: int, rows: int) -> None:
    """The inputs of a run whose groups are rejected and taken back, pass by pass."""
    pipelines.write(folder, {**correlated_runs.files(rows, f"run-{number}-")})
    (folder / "pipeline.yaml").rename(folder / "p.yaml")


def published(folder: Path) -> dict[str, list[str]]:
    """The runs whose records stand in each file, a record each."""
    found = {}
    for name in FOLDERS:
        for path in sorted((folder / name).glob("*")):
            assert path.is_file(), f"left over: {path}"
            found[f"{name}/{path.name}"] = _RUN.findall(path.read_text())
    return found


class Rounds:
    """The rounds of one folder: each begins where the one before ended."""

    def __init__(self, folder: Path, *, rows: int, is_real: bool, is_correlated: bool = False) -> None:
        self.folder, self.rows, self.is_real = folder, rows, is_real
        self.prepare = prepare_correlated if is_correlated else prepare
        self.number = 1
        began = time.monotonic()
        self.prepare(folder, 1, rows)
        assert self.run() == 2, "the first run has dead letters"
        self.takes = time.monotonic() - began
        self.counts = {name: len(runs) for name, runs in published(folder).items()}
        self.last = "1"

    def run(self) -> int:
        """A whole run."""
        if self.is_real:
            return self._start().wait(600)
        child = self._fork()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "spark_jobs", "run", str(self.folder / "p.yaml"), "--force", "--quiet"]
        output = subprocess.DEVNULL
        return subprocess.Popen([*command, "--threads", "2"], stdout=output, stderr=output, start_new_session=True)

    def _fork(self) -> int:
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            code = 99
            try:
                sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the child ends
                code = clinker.main(["run", str(self.folder / "p.yaml"), "--force", "--quiet", "--threads", "2"])
            finally:
                os._exit(code)
        return child

    def play(self, chance: random.Random) -> str:
        """Kill a run, recover, and look; gives what became of it."""
        self.number += 1
        self.prepare(self.folder, self.number, self.rows)
        late = 0.8 if chance.random() < 0.5 else 0.0  # what is most dangerous comes last
        delay = (late + chance.random() * (1.02 - late)) * self.takes
        outcome = self._kill_real(chance, delay) if self.is_real else self._kill_fork(delay)
        for name in FOLDERS:
            recovery.recover(self.folder / name)
        found = published(self.folder)
        runs = {run for each in found.values() for run in each}
        assert runs in ({self.last}, {str(self.number)}), f"records of the runs {runs}; {self.last} was the last"
        assert {name: len(each) for name, each in found.items()} == self.counts
        is_new = runs == {str(self.number)}
        assert is_new or not outcome.startswith("ended"), "a run that has ended has not published"
        self.last = runs.pop()
        return f"{outcome}, {'new' if is_new else 'old'} files"

    def _kill_fork(self, delay: float) -> str:
        child = self._fork()
        began, ended, status = time.monotonic(), 0, 0
        while not ended and time.monotonic() - began < delay:
            time.sleep(_TICK_S)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            return "killed"
        self.takes = time.monotonic() - began  # the machine may have more, or less, to do than before
        assert os.WEXITSTATUS(status) == 2, f"the run ended with {os.WEXITSTATUS(status)}"
        return "ended"

    def _kill_real(self, chance: random.Random, delay: float) -> str:
        process, target = self._start(), chance.choice(_TARGETS)
        time.sleep(delay)
        if process.poll() is not None:
            return "ended before its kill"
        family = psutil.Process(process.pid).children(recursive=True)
        chosen = _chosen(target, process.pid, family, chance)
        if target == "group":
            os.killpg(process.pid, signal.SIGKILL)
        elif chosen is not None:
            chosen.send_signal(signal.SIGKILL)
        code = process.wait(600)
        _, alive = psutil.wait_procs(family, _LIMIT_S)
        assert not alive, f"{target} killed; still there: {[each.cmdline()[:3] for each in alive]}"
        assert code in (-signal.SIGKILL, 2, 4), f"{target} killed: the run ended with {code}"
        return f"{'ended after the kill of its ' if code == 2 else ''}{target}{'' if code == 2 else ' killed'}"


def _chosen(target: str, pid: int, family: list[psutil.Process], chance: random.Random) -> psutil.Process | None:
    """The process to kill: None when there is none of its kind yet."""
    if target == "driver":
        return psutil.Process(pid)
    wanted = "java" if target == "jvm" else "python"
    found = []
    for each in family:
        try:
            if wanted in each.name():
                found.append(each)
        except psutil.NoSuchProcess:
            continue
    return chance.choice(found) if found else None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = rounds.parser("kills", 200, "drivers killed at random moments")
    parser.add_argument("--rows", type=int, default=3000, help="records of the input")
    parser.add_argument("--correlated", action="store_true", help="kill runs that repeat their pass")
    parser.add_argument("--real", action="store_true", help="kill real runs on embedded Spark")
    chosen = parser.parse_args(arguments)
    with pytest.MonkeyPatch.context() as patch:
        pipelines.cut_by(patch, 8000)
        if not chosen.real:
            without_spark.install(patch)
        about = {"rows": chosen.rows, "is_real": chosen.real, "is_correlated": chosen.correlated}
        return rounds.in_one_folder("kills", chosen, lambda folder: Rounds(folder, **about).play)


if __name__ == "__main__":
    sys.exit(main())
