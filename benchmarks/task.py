"""A pipeline's tasks in this process, one after another and without Spark: what kernels, formats and exchanges cost.

    python benchmarks/task.py benchmarks/workloads/group_16.yaml [--profile] [run options]

The environment names the files, as for `run.py`'s workloads. Prints the processor seconds of each task, and with
`--profile` where they went.
"""

from __future__ import annotations

import argparse
import cProfile
import pickle
import pstats
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow as pa

from spark_jobs import plan
from spark_jobs.execute import identity, report
from spark_jobs.execute.run import executor
from spark_jobs.execute.spark import chain, session, spread
from spark_jobs.execute.tasks import shuffle_records
from spark_jobs.execute.tasks import stage as stages
from spark_jobs.plan.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_jobs.execute.tasks.spec import JobSpec


class NoSession:
    """The members of a session that a run needs besides running jobs."""

    version = "none"

    def addTag(self, tag: str) -> None:
        """Jobs of this process cannot be cancelled."""

    def removeTag(self, tag: str) -> None:
        """See `addTag`."""


def run_chain(_: object, spec: JobSpec) -> list[report.TaskReport]:
    """Run a job's stages: what `chain.run` has Spark do."""
    pickled = pickle.dumps(spec, protocol=pickle.HIGHEST_PROTOCOL)
    rows: list[dict[str, Any]] = []
    for index in range(len(spec.loads)):
        batch = pa.RecordBatch.from_pydict({"id": pa.array([index])})
        rows += _timed(f"stage 0, task {index}", stages.run_stage(pickled, 0, iter([batch])))
    for stage in range(1, spec.job.stages):
        by_slot: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            by_slot[row["slot"]].append(row)
        rows = []
        for slot in range(spec.job.slots(stage)):
            mine = sorted(by_slot[slot], key=lambda row: (row["exchange"], row["ordinal"]))
            batches = (pa.RecordBatch.from_pylist([row], schema=shuffle_records.SCHEMA) for row in mine)
            found = stages.open_records(stages.unpickled(pickled), stage, slot, "0", batches)
            rows += _timed(f"stage {stage}, slot {slot}", found)
    reports = [each for row in rows for each in report.decode(row["payload"])]
    return sorted(reports, key=lambda each: (each.stage, each.number))


def answers(_: object, pickled: bytes, count: int) -> list[dict[str, Any]]:
    """Run the tasks of a spread in this process; returns their answers."""
    numbers = (pa.RecordBatch.from_pydict({"id": [number]}) for number in range(count))
    return _timed("spread", spread.run_task(pickled, numbers))


def _timed(name: str, batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    started = time.process_time()
    rows = [row for batch in batches for row in batch.to_pylist()]
    sent = sum(len(row.get("payload") or b"") for row in rows)
    print(f"{name}: {time.process_time() - started:.2f} s of processor, sends {sent} bytes")
    return rows


@contextmanager
def without_spark() -> Iterator[None]:
    """Runs within it are tasks of this process."""
    with (
        mock.patch.object(chain, "run", run_chain),
        mock.patch.object(spread, "_answers", answers),
        mock.patch.object(session, "open_session", return_value=NoSession()),
        mock.patch.object(session, "describe", return_value={}),
    ):
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a pipeline's tasks in this process.")
    parser.add_argument("pipeline", type=Path)
    parser.add_argument("--profile", action="store_true", help="show where the time went")
    arguments = parser.parse_args()
    options = RunOptions(allow_absolute_paths=True, force=True)
    loaded = plan.load(arguments.pipeline, options)
    profile = cProfile.Profile(time.process_time)
    with without_spark():
        started = time.process_time()
        if arguments.profile:
            profile.enable()
        outcome = executor.execute(loaded, options, identity.Identity.new(None, None))
        profile.disable()
    if outcome.result.error:
        print(outcome.result.error)
    print(f"exit {outcome.result.exit_code}, {time.process_time() - started:.2f} s of processor in all")
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
