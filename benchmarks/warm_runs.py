"""Many runs of a hundred rows in one warm driver: what each costs, and whether memory or open files grow.

    python benchmarks/warm_runs.py --count 200

Starts a driver of its own (`CLINKER_KEEP_WARM`), runs the pipeline of `startup` so often, and stops it. Prints wall and
processor times of runs, clients included, and the memory, files, threads and processes of the driver after the first
tenth of the runs and at the end. Exit status 1 if one of these grew by more than `GROWTH`, or a run failed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_REPOSITORY = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(_REPOSITORY))

from benchmarks import data, measure  # noqa: E402 - after the path

_ROWS = 100
_LIMIT_S = 600.0
#: The limit of each figure of a driver at the end: the first figure times a factor, plus an amount.
GROWTH = {"MiB": (1.25, 64), "open files": (1.0, 10), "threads": (1.0, 10), "processes": (1.0, 1)}


@dataclass(frozen=True)
class Held:
    """Memory, files, threads and processes of a driver, its JVM and its workers."""

    figures: dict[str, int]

    @classmethod
    def of(cls, pid: int) -> Held:
        """Measure a process and its descendants now; pages that they share are counted once."""
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
        return cls(
            {
                "MiB": sum(each.memory_full_info().pss for each in family) >> 20,
                "open files": sum(each.num_fds() for each in family),
                "threads": sum(each.num_threads() for each in family),
                "processes": len(family),
            }
        )

    def grown(self, before: Held) -> list[str]:
        """Describe the figures that have grown by more than they may."""
        return [
            f"{name}: {before.figures[name]} to {value}"
            for name, value in self.figures.items()
            if value > before.figures[name] * GROWTH[name][0] + GROWTH[name][1]
        ]


def main() -> int:
    """Run, print the figures, and report those above their limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many runs (200)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clinker-warm-") as name:
        folder = Path(name)
        environment = _environment(folder)
        try:
            return _measured(asked.count, environment)
        finally:
            _clinker(environment, "serve", "--stop")


def _environment(folder: Path) -> dict[str, str]:
    for name in ("runtime", "output"):
        (folder / name).mkdir(mode=0o700)
    return {
        **os.environ,
        "XDG_RUNTIME_DIR": str(folder / "runtime"),
        "CLINKER_KEEP_WARM": "1",
        "PYTHONPATH": str(_REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "",
        "BENCH_ORDERS": str(data.orders(folder, _ROWS)),
        "BENCH_OUTPUT": str(folder / "output"),
    }


def _measured(count: int, environment: dict[str, str]) -> int:
    pipeline = str(_REPOSITORY / "benchmarks" / "workloads" / "startup.yaml")
    cold_s = _clinker(environment, "run", pipeline, "--allow-absolute-paths", "--force")
    pid = _driver(environment)
    early, walls, spent, before = max(count // 10, 1), [], [], None
    for number in range(count):
        cpu_s = measure.tree_cpu_seconds(pid) + measure.waited_cpu_seconds()
        walls.append(_clinker(environment, "run", pipeline, "--allow-absolute-paths", "--force"))
        spent.append(measure.tree_cpu_seconds(pid) + measure.waited_cpu_seconds() - cpu_s)
        if number + 1 == early:
            before = Held.of(pid)
    assert before is not None
    after = Held.of(pid)
    print(f"first run: {cold_s:.2f} s")
    print(f"second run: {walls[0]:.2f} s, {spent[0]:.2f} s of processor")
    print(f"{count} runs: median {statistics.median(walls):.2f} s, {statistics.median(spent):.2f} s of processor")
    for name, value in after.figures.items():
        print(f"{name}: {before.figures[name]} after {early} runs, {value} after {count}")
    if _driver(environment) != pid:
        print("another driver has taken over: the first one has ended")
        return 1
    grown = after.grown(before)
    print(*(f"grown: {each}" for each in grown), sep="\n", end="")
    return 1 if grown else 0


def _clinker(environment: dict[str, str], *arguments: str) -> float:
    """The wall time of a command, in seconds; it succeeds, or nothing is measured."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "spark_jobs", *arguments],
        cwd=_REPOSITORY, env=environment, check=True, capture_output=True, timeout=_LIMIT_S,
    )  # fmt: skip
    return time.perf_counter() - started


def _driver(environment: dict[str, str]) -> int:
    """The process of the one driver that there is."""
    command = [sys.executable, "-m", "spark_jobs", "serve", "--status"]
    told = subprocess.run(command, cwd=_REPOSITORY, env=environment, check=True, capture_output=True, text=True).stdout
    (line,) = told.splitlines()
    return int(line.removeprefix("pid ").partition(":")[0])


if __name__ == "__main__":
    sys.exit(main())
