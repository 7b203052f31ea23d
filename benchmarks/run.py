"""Clinker beside hand-written PySpark and DuckDB: whole processes in turns, ratios of medians, peak memory.

    python benchmarks/run.py --rows 5000000 --rows 20000000 --runs 3
    python benchmarks/run.py --workload startup --cluster
    python benchmarks/run.py --shape 1 --shape 2 --runs 1 --warm

The files are made once and kept in the folder `--data`. Each round runs every program once, so that a machine that
slows down slows all of them; the first round of each workload at its smallest size also compares the results. With
`--shape` the inputs have the shapes of some seeds (`shapes.py`), and the worst of them counts. With `--warm` a session
of Clinker and one of PySpark run all workloads, so that no start is measured (`warm.py`). See docs/performance.md.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_REPOSITORY = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(_REPOSITORY))

from benchmarks import data, equality, measure, shapes, warm  # noqa: E402 - after the path
from spark_jobs.execute.spark import cores  # noqa: E402
from spark_jobs.execute.spark.embedded import class_archive, java  # noqa: E402

if TYPE_CHECKING:
    #: Runs a workload with a program; the environment names its files.
    _Measure = Callable[[str, str, Mapping[str, str]], measure.Measurement]

#: The most that each workload may take of the time of hand-written PySpark, at 20 million rows.
GOALS = {
    "filter_derive": 0.3, "route_dlq": 0.17, "group_16": 0.4, "group_200k": 0.4, "lookup": 0.4, "join": 0.42,
    "sort": 0.7, "ranges": 0.25, "collect": 0.6, "skew": 0.4,
    "startup": 0.38, "small_files": 0.5, "dead_letters": 0.6, "ndjson": 0.5, "ndjson_widened": 0.5,
    "tumbling": 0.5, "session": 0.5, "window": 0.4, "window_large": 0.6,
    "correlated": 0.35, "correlated_all_dirty": 0.6, "retracted": 0.7,
}  # fmt: skip
#: From 5 to 20 million rows: the most that time and memory may grow.
SCALING = (4.2, 1.15)
PROGRAMS = ("clinker", "spark", "duckdb")
#: Those whose start costs so much that they can be kept warm.
_WARM_PROGRAMS = ("clinker", "spark")
#: Rows of a first run, which is not measured: it loads the code that a workload needs.
_WARM_ROWS = 50_000
_STARTUP_ROWS = 100
#: Workloads of one size: a hundred rows, and ten thousand files.
_FIXED_ROWS = {"startup": _STARTUP_ROWS, "small_files": 10_000 * data.SMALL_ROWS}
_LIMIT_S = 1800.0
#: How long the class-data archive, which is made in the background, is waited for.
_ARCHIVE_S = 180.0


@dataclass
class Result:
    """The measurements of one workload at one size, by program; with the seed of its shape if it has one."""

    workload: str
    rows: int
    seed: int | None = None
    runs: dict[str, list[measure.Measurement]] = field(default_factory=dict)

    def seconds(self, program: str) -> float:
        """The median time."""
        return statistics.median(run.seconds for run in self.runs[program])

    def cpu_seconds(self, program: str) -> float:
        """The median processor time."""
        return statistics.median(run.cpu_seconds for run in self.runs[program])

    def peak(self, program: str) -> int:
        """The median of the peaks."""
        return int(statistics.median(run.peak_bytes for run in self.runs[program]))

    def ratio(self, program: str) -> float | None:
        """Clinker's time divided by a program's time."""
        return self.seconds("clinker") / self.seconds(program) if {program, "clinker"} <= set(self.runs) else None

    def cpu_ratio(self, program: str) -> float | None:
        """The ratio of processor times, which other work disturbs less; None where they are too short to be seen."""
        known = {program, "clinker"} <= set(self.runs) and self.cpu_seconds(program) > 0
        return self.cpu_seconds("clinker") / self.cpu_seconds(program) if known else None


def main() -> int:
    """Measure the workloads of the command line; exit status 1 when results differ."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.shape and (unshaped := [name for name in arguments.workload or () if name not in shapes.WORKLOADS]):
        parser.error(f"--shape: {', '.join(unshaped)} has inputs of one shape only")
    if arguments.warm and (cold := [name for name in arguments.program or () if name not in _WARM_PROGRAMS]):
        parser.error(f"--warm: {', '.join(cold)} has no session")
    programs = tuple(arguments.program or (_WARM_PROGRAMS if arguments.warm else PROGRAMS))
    results: list[Result] = []
    folder = tempfile.TemporaryDirectory(prefix="clinker-bench-", dir=arguments.scratch)
    with folder as scratch, contextlib.ExitStack() as stack:
        given = stack.enter_context(_cluster(Path(scratch))) if arguments.cluster else {}
        os.environ.update(given)
        if arguments.warm:
            sessions = stack.enter_context(warm.sessions(programs, Path(scratch)))
            once = lambda program, workload, given: sessions[program].run(workload, given)  # noqa: E731 - a choice
        else:
            once = functools.partial(_process, scratch=Path(scratch))
            _warm_up(programs, arguments, Path(scratch))
        for workload in arguments.workload or (shapes.WORKLOADS if arguments.shape else GOALS):
            if arguments.warm:
                _rounds(Result(workload, _WARM_ROWS), 1, programs, arguments.data, Path(scratch), once)
            fixed = _FIXED_ROWS.get(workload)
            sizes = [fixed] if fixed else sorted(arguments.rows or [5_000_000])
            for size, seed in itertools.product(sizes, arguments.shape or [None]):
                result = Result(workload, size, seed)
                _measure(result, programs, arguments, Path(scratch), once, compare=size == sizes[0])
                results.append(result)
                _tell(result, sys.stderr)
    sys.stdout.write(_report(results))
    if arguments.json:
        document = {"setup": _setup(arguments), "results": [_record(result) for result in results]}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure Clinker beside hand-written PySpark and DuckDB.")
    parser.add_argument("--rows", type=int, action="append", help="orders to read; may be repeated (default 5000000)")
    parser.add_argument("--workload", choices=GOALS, action="append", help="may be repeated (default all)")
    parser.add_argument("--shape", type=int, action="append", metavar="SEED", help="shape of inputs; may be repeated")
    parser.add_argument("--program", choices=PROGRAMS, action="append", help="may be repeated (default all)")
    parser.add_argument("--runs", type=int, default=3, help="rounds of each workload (default 3)")
    default = Path(tempfile.gettempdir()) / "clinker-bench-data"
    parser.add_argument("--data", type=Path, default=default, help="folder that keeps the inputs (default %(default)s)")
    parser.add_argument("--scratch", type=Path, help="folder for outputs (default the system's temporary folder)")
    parser.add_argument(
        "--warm", action="store_true", help="keep sessions of Clinker and PySpark: no start is measured"
    )
    parser.add_argument("--cluster", action="store_true", help="run on a standalone cluster of one worker")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    return parser


@contextlib.contextmanager
def _cluster(scratch: Path) -> Iterator[dict[str, str]]:
    """A standalone master and a worker with all cores; returns the variables that both Spark programs look at.

    The processor time of executors is not in the measurements: they are children of the worker.
    """
    from tests import cluster  # the tests' way to start one

    folder = scratch / "cluster"
    folder.mkdir()
    with cluster.standalone(folder, workers=1, cores=cores.available(), memory="2g") as found:
        yield {"BENCH_MASTER": found.master, "SPARK_LOCAL_IP": "127.0.0.1"}


def _warm_up(programs: tuple[str, ...], arguments: argparse.Namespace, scratch: Path) -> None:
    """Make the things that a machine needs once: compiled Python modules, and the class-data archive."""
    once = functools.partial(_process, scratch=scratch)
    _rounds(Result("startup", _STARTUP_ROWS), 1, programs, arguments.data, scratch, once)
    found = java.executable()
    archive = class_archive.path(found) if found and "clinker" in programs else None
    deadline = time.monotonic() + _ARCHIVE_S
    while archive and not archive.exists() and time.monotonic() < deadline:
        time.sleep(0.5)


def _measure(
    result: Result,
    programs: tuple[str, ...],
    arguments: argparse.Namespace,
    scratch: Path,
    once: _Measure,
    *,
    compare: bool,
) -> None:
    """All rounds of a workload; the results of the first are compared."""
    _rounds(result, 1, programs, arguments.data, scratch, once, compare=compare)
    _rounds(result, arguments.runs - 1, programs, arguments.data, scratch, once)


def _rounds(
    result: Result,
    rounds: int,
    programs: tuple[str, ...],
    inputs: Path,
    scratch: Path,
    once: _Measure,
    *,
    compare: bool = False,
) -> None:
    """Run each program once in each round."""
    given = {
        **_inputs(result, inputs),
        "PYTHONPATH": str(_REPOSITORY),
        # An environment may forbid to keep compiled modules; every start of every program would compile them anew.
        "PYTHONDONTWRITEBYTECODE": "",
    }
    for _ in range(rounds):
        outputs = {}
        for program in programs:
            outputs[program] = output = scratch / program
            output.mkdir()
            measured = once(program, result.workload, {**given, "BENCH_OUTPUT": str(output)})
            result.runs.setdefault(program, []).append(measured)
        if compare:
            _compare(result.workload, outputs)
        for output in outputs.values():
            shutil.rmtree(output)


def _process(program: str, workload: str, environment: Mapping[str, str], scratch: Path) -> measure.Measurement:
    """A workload in a process of its own."""
    return measure.run(_command(program, workload), environment, scratch, limit_s=_LIMIT_S)


def _inputs(result: Result, folder: Path) -> dict[str, str]:
    """The variables that name a workload's inputs, which are made where they are not there yet."""
    if result.seed is not None:
        return shapes.Shape.of(result.seed).inputs(folder, result.workload, result.rows)
    return {
        "BENCH_ORDERS": str(_orders(result, folder)),
        "BENCH_ORDER_LINES": str(data.order_lines(folder, result.rows)) if "ndjson" in result.workload else "",
        "BENCH_CUSTOMERS": str(data.customers(folder)),
        "BENCH_EVENTS": str(data.events(folder, result.rows)) if result.workload in ("tumbling", "session") else "",
        "BENCH_INTERVALS": str(data.intervals(folder, result.rows)) if result.workload == "ranges" else "",
    }


def _orders(result: Result, inputs: Path) -> Path:
    if result.workload == "small_files":
        return data.small_orders(inputs, result.rows)
    if result.workload == "skew":
        return data.skewed_orders(inputs, result.rows)
    return data.orders(inputs, result.rows, bad_every=data.BAD_EVERY.get(result.workload, 0))


def _command(program: str, workload: str) -> list[str]:
    if program == "clinker":
        pipeline = str(_REPOSITORY / "benchmarks" / "workloads" / f"{workload}.yaml")
        master = os.environ.get("BENCH_MASTER")
        where = ["--master", master, "--conf", "spark.driver.host=127.0.0.1"] if master else []
        return [sys.executable, "-m", "spark_jobs", "run", pipeline, "--allow-absolute-paths", *where]
    return [sys.executable, "-m", f"benchmarks.baselines.{workload}", program]


def _compare(workload: str, outputs: dict[str, Path]) -> None:
    first, *others = outputs
    for other in others:
        if found := equality.differences(workload, outputs[first], outputs[other]):
            raise SystemExit(f"{workload}: {first} and {other} differ: {'; '.join(found)}")


def _tell(result: Result, stream: TextIO) -> None:
    times = ", ".join(
        f"{program} {result.seconds(program):.1f} s ({result.cpu_seconds(program):.1f} s of processor)"
        for program in result.runs
    )
    shape = "" if result.seed is None else f" of {shapes.Shape.of(result.seed)} (seed {result.seed})"
    stream.write(f"# {result.workload} {result.rows}{shape}: {times}\n")


def _report(results: list[Result]) -> str:
    """The table."""
    heads = ("/ PySpark", "processor", "/ DuckDB", "processor")
    lines = [
        f"{'workload':<20} {'rows':>9} {'goal':>5}" + "".join(f" {head:>9}" for head in heads) + "   peak memory, MiB"
    ]
    for result in results:
        peaks = ", ".join(f"{program} {result.peak(program) >> 20}" for program in result.runs)
        ratios = [ratio(program) for program in ("spark", "duckdb") for ratio in (result.ratio, result.cpu_ratio)]
        shown = "".join(f" {ratio:>9.2f}" if ratio is not None else f" {'-':>9}" for ratio in ratios)
        name = result.workload if result.seed is None else f"{result.workload} @{result.seed}"
        lines.append(f"{name:<20} {result.rows:>9} {GOALS[result.workload]:>5}{shown}   {peaks}")
    return "\n".join(lines + _growth(results) + _worst(results)) + "\n"


def _worst(results: list[Result]) -> list[str]:
    """The worst ratio of processor times of each workload among its shapes, and the seed that has it."""
    lines = []
    for workload in dict.fromkeys(result.workload for result in results):
        found = [
            (ratio, result)
            for result in results
            if result.workload == workload and result.seed is not None and (ratio := result.cpu_ratio("spark"))
        ]
        if found:
            ratio, result = max(found, key=lambda each: each[0])
            lines.append(
                f"{workload:<20} processor {ratio:.2f} / PySpark at worst (goal {GOALS[workload]}), seed {result.seed}"
            )
    return lines


def _growth(results: list[Result]) -> list[str]:
    """Describe the growth of time and memory between the smallest and the largest size of each workload."""
    lines = []
    for workload in dict.fromkeys(result.workload for result in results):
        sizes = [each for each in results if each.workload == workload and "clinker" in each.runs and each.seed is None]
        if len(sizes) > 1:
            small, large = sizes[0], sizes[-1]
            time = large.seconds("clinker") / small.seconds("clinker")
            memory = large.peak("clinker") / small.peak("clinker")
            lines.append(
                f"{workload:<14} x {large.rows / small.rows:.1f} rows: time x {time:.2f}, memory x {memory:.2f}"
            )
    return (
        [f"growth of clinker (goals from 5 to 20 million rows: time {SCALING[0]}, memory {SCALING[1]})", *lines]
        if lines
        else []
    )


def _setup(arguments: argparse.Namespace) -> dict[str, object]:
    """The conditions of the measurements, which `page.py` writes above its tables."""
    return {
        "warm": arguments.warm,
        "cluster": arguments.cluster,
        "rounds": arguments.runs,
        "cores": cores.available(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "versions": {name: metadata.version(name) for name in ("clinker-spark", "pyspark", "duckdb", "pyarrow")},
    }


def _record(result: Result) -> dict[str, object]:
    runs = {program: [dataclasses.asdict(run) for run in runs] for program, runs in result.runs.items()}
    return {"workload": result.workload, "rows": result.rows, "seed": result.seed, "runs": runs}


if __name__ == "__main__":
    sys.exit(main())
