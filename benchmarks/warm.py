"""Measures programs that stay warm between runs, so that the costs of rows show without the costs of the start.

At a million rows most of a process is the start of Spark. Here a session of each program runs one workload after
another, and a measurement is the processor time that its whole process tree took in between: driver, JVM, workers.
The JVM has compiled its code by then, which helps PySpark more than Clinker, whose rows do not pass through it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    #: Runs a workload; the environment names its files.
    _Run = Callable[[str], None]

_REPOSITORY = Path(__file__).resolve().parent.parent
#: The pause after a run, in which the JVM's compiler and collector threads finish their work.
_CALM_S = 0.3


class Session:
    """A program that waits for workloads, in a process of its own.

    Args:
        program: `clinker` or `spark`.
        folder: the working directory, which gets its log.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._log = folder / f"{program}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.warm", program], cwd=folder, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(_REPOSITORY), "PYTHONDONTWRITEBYTECODE": ""},
            )  # fmt: skip

    def run(self, workload: str, environment: Mapping[str, str]) -> measure.Measurement:
        """Run a workload; the environment names its files. Memory is not measured.

        Raises:
            measure.Failed: it failed; the text is the end of the program's log.
        """
        started, before = time.perf_counter(), measure.tree_cpu_seconds(self._process.pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the program has ended: there is no answer either
            self._process.stdin.write(json.dumps([workload, dict(environment)]) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        seconds = time.perf_counter() - started
        if answer != "done\n":
            raise measure.Failed(f"{workload} failed in {self._program}:\n{self._log.read_text()[-3000:]}")
        time.sleep(_CALM_S)
        return measure.Measurement(seconds, measure.tree_cpu_seconds(self._process.pid) - before, 0)

    def close(self) -> None:
        """End the program and its descendants."""
        measure.kill_session(self._process)


@contextlib.contextmanager
def sessions(programs: tuple[str, ...], folder: Path) -> Iterator[dict[str, Session]]:
    """A session of each program."""
    opened: dict[str, Session] = {}
    try:
        for program in programs:
            opened[program] = Session(program, folder)
        yield opened
    finally:
        for session in opened.values():
            session.close()


def _clinker() -> _Run:
    from spark_jobs.cli import clinker
    from spark_jobs.execute.spark import session
    from spark_jobs.plan.options import RunOptions

    session.follow_threads()
    session.begin(RunOptions())

    def run(workload: str) -> None:
        pipeline = _REPOSITORY / "benchmarks" / "workloads" / f"{workload}.yaml"
        status = clinker.main(["run", str(pipeline), "--allow-absolute-paths", "--force"])
        if status not in (0, 2):
            raise RuntimeError(f"exit status {status}")

    return run


def _spark() -> _Run:
    from benchmarks.baselines import program

    session = program.open_session()

    def run(workload: str) -> None:
        found: Any = importlib.import_module(f"benchmarks.baselines.{workload}")
        found.spark(session, os.environ["BENCH_OUTPUT"])
        session.catalog.clearCache()

    return run


def main() -> None:
    """Answer each line of standard input, a workload and an environment, with `done`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # prints of a program are no answers
    run = {"clinker": _clinker, "spark": _spark}[sys.argv[1]]()
    for line in sys.stdin:
        workload, environment = json.loads(line)
        os.environ.update(environment)
        run(workload)
        answers.write("done\n")
        answers.flush()


if __name__ == "__main__":
    main()
