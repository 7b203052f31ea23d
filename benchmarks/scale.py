"""Times the driver with very many splits: planning, telling tasks, tallying, ordering, putting parts together.

    python benchmarks/scale.py [--splits 1000000] [--files 64] [--output-bytes 16] [--output groups|parts|split]

The input is sparse files of the nominal size, so nothing is read but their heads. The tasks are not run: their reports
are made up, and each of their parts is a file of a few bytes. Everything else is a run as it always is, in this
process. Prints the seconds of each phase, and the most memory that the process had at its end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pickle
import resource
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pyarrow as pa

from benchmarks import task
from spark_jobs import plan
from spark_jobs.execute import identity, report
from spark_jobs.execute.delivery.local.part_store import LocalPartStore
from spark_jobs.execute.run import executor, pass_results
from spark_jobs.execute.spark import chain, session, spread
from spark_jobs.execute.tasks import task_inputs
from spark_jobs.formats import splits
from spark_jobs.nodes.output import records
from spark_jobs.nodes.output.step import OutputStep
from spark_jobs.nodes.records.ledger import Counters
from spark_jobs.plan.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.execute.tasks.spec import JobSpec

_PIPELINE = """
pipeline: {name: scale}
nodes:
  - {type: source, name: s, config: {type: csv, glob: "in/*.csv", schema: {id: int, key: string}}}
  - {type: transform, name: t, input: s, config: {cxl: "emit double = id * 2"}}
"""
_OUTPUTS = {
    "rows": "  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}\n",
    "groups": """  - {type: aggregate, name: a, input: t, config: {group_by: [key], cxl: "emit n = count(*)"}}
  - {type: output, name: o, input: a, config: {type: csv, path: out/o.csv}}
""",
    "parts": "  - {type: output, name: o, input: t, config: {type: csv, path: out/o, parts: true}}\n",
    "split": "  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv, split: {max_records: 4}}}\n",
}
_HEADER = b"id,key\n"
#: The number of records in a made-up split.
_RECORDS = 500_000


def write(folder: Path, count: int, files: int, output: str) -> None:
    """A pipeline, and sparse files that are cut into about so many splits."""
    (folder / "pipeline.yaml").write_text(_PIPELINE + _OUTPUTS[output])
    (folder / "in").mkdir()
    for number in range(files):
        path = folder / f"in/{number:05}.csv"
        path.write_bytes(_HEADER + b"1,a\n" * 20_000)
        with path.open("r+b") as file:
            file.truncate(splits.SPLIT_BYTES * (count // files))


class Tasks:
    """Makes up the results of a job's tasks, and the part files that they name."""

    def __init__(self, output_bytes: int, clock: Clock) -> None:
        self._records = output_bytes // 6 + 1
        self._bytes = b"1,a,2\n" * self._records
        self._clock = clock

    def run(self, _: object, spec: JobSpec) -> report.Reports:
        """Give made-up reports in place of `chain.run`."""
        with self._clock.phase("tell tasks"):
            pickled = pickle.dumps(spec, protocol=pickle.HIGHEST_PROTOCOL)
        partitions = sum(exchange.partitions for exchange in spec.job.exchanges)
        print(f"{len(spec.loads)} tasks, {partitions} partitions, a job of {len(pickled)} bytes")
        with self._clock.phase("(make up reports)"):
            told = [*self._told(spec)]
            payload = pa.array(told, pa.binary())
            print(f"reports of {payload.nbytes} bytes")
        numbers = pa.array(range(len(told)))
        return report.Reports(pa.array(np.zeros(len(told), dtype=np.int64)), numbers, payload)

    def _told(self, spec: JobSpec) -> Iterator[bytes]:
        """Encode reports as Spark's tasks send them: several in a message, where there are very many."""
        count = len(spec.loads)
        borders = np.linspace(0, count, min(count, spread.MOST_TASKS) + 1).astype(int).tolist()
        loads = iter(spec.loads)
        for first, last in itertools.pairwise(borders):
            yield report.encode([self._report(spec, load) for load in itertools.islice(loads, last - first)])

    def _report(self, spec: JobSpec, load: task_inputs.Load) -> report.TaskReport:
        assert isinstance(load, task_inputs.Splits)
        number = load.number
        made = report.TaskReport(0, number, 0.5)
        made.counters = {name: Counters(_RECORDS, _RECORDS) for name in ("s", "t")}
        made.splits += [report.Measure(place.number, _RECORDS, splits.SPLIT_BYTES, True) for place in load.splits]
        if spec.job.exchanges:
            return made
        made.counters["o"] = Counters(_RECORDS, _RECORDS)
        path = f"{spec.run.parts.folders['o']}/deadbeef-0-{number}-0-0-{number:08x}.part"
        step = spec.job.ops["o"].step
        assert isinstance(step, OutputStep)
        if step.is_indexed:
            ends = np.arange(1, self._records + 1) * 6
            file = records.IndexedFile(LocalPartStore().create, path, ())
            file.write(records.of(self._bytes, ends, b""), {})
            file.close()
        else:
            Path(path).write_bytes(self._bytes)
        made.parts.append(report.Part("o", (), number, path, len(self._bytes), _RECORDS))
        return made


class Clock:
    """Times work that is no phase of the run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - started


def timed(clock: Clock, name: str, function: object) -> object:
    """A function whose calls are timed."""

    def wrapped(*arguments: object, **options: object) -> object:
        with clock.phase(name):
            return function(*arguments, **options)  # type: ignore[operator]

    return wrapped


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the driver with very many splits.")
    parser.add_argument("--splits", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--output-bytes", type=int, default=16)
    parser.add_argument("--output", choices=[*_OUTPUTS], default="rows", help="the kind of output (default rows)")
    arguments = parser.parse_args()
    clock = Clock()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        write(folder, arguments.splits, arguments.files, arguments.output)
        tasks = Tasks(arguments.output_bytes, clock)
        stack.enter_context(mock.patch.object(chain, "run", tasks.run))
        stack.enter_context(mock.patch.object(session, "open_session", return_value=task.NoSession()))
        stack.enter_context(mock.patch.object(session, "describe", return_value={}))
        add = pass_results.PassResults.add
        stack.enter_context(mock.patch.object(pass_results.PassResults, "add", timed(clock, "add up", add)))
        options = RunOptions(force=True, quiet=True, metrics_spool_dir=str(folder / "metrics"))
        loaded = plan.load(folder / "pipeline.yaml", options)
        outcome = executor.execute(loaded, options, identity.Identity.new(None, None))
        if outcome.result.error:
            print(outcome.result.error)
        document = json.loads(next((folder / "metrics").iterdir()).read_text())
        for name, ms in document["phases_ms"].items():
            print(f"phase {name:18} {ms / 1000:8.1f} s")
    for name, seconds in clock.seconds.items():
        print(f"{name:24} {seconds:8.1f} s")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")


if __name__ == "__main__":
    main()
