"""A stage of a job inside one Spark task: reads splits or shuffle records, and emits shuffle records."""

from __future__ import annotations

import gc
import pickle
import uuid
from functools import cache
from typing import TYPE_CHECKING, assert_never

from spark_jobs.execute import report, scratch
from spark_jobs.execute.tasks import shuffle_records
from spark_jobs.execute.tasks.task import Task
from spark_jobs.execute.tasks.task_inputs import MaterializedRange, Splits
from spark_jobs.nodes import worker_cache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from spark_jobs.execute.tasks.spec import JobSpec


def run_stage(pickled: bytes, stage: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A stage's part in one Spark task: what `mapInArrow` calls.

    Args:
        pickled: the job's `JobSpec`.
        stage: 0 gets rows with the numbers of loads to read; later stages get shuffle records, sorted by exchange and
            ordinal.
        batches: the task's rows.

    Yields:
        Parcels.
    """
    from pyspark import TaskContext

    spec = unpickled(pickled)
    context = TaskContext.get()
    if context:
        _freeze()
    number = context.partitionId() if context else 0
    attempt = f"{context.attemptNumber() if context else 0}-{uuid.uuid4().hex[:8]}"
    if stage == 0:
        yield from read_loads(spec, shuffle_records.numbers_in(batches), attempt)
        return
    yield from open_records(spec, stage, number, attempt, batches)


@cache
def _freeze() -> None:
    """Spare a worker of Spark's from looking for garbage among all that is imported, which it does after each task."""
    gc.freeze()


def read_loads(spec: JobSpec, numbers: Iterable[int], attempt: str) -> Iterator[pa.RecordBatch]:
    """Tasks of stage 0, one after the other; a single one, unless there are very many. Their reports go together."""
    reports: list[report.TaskReport] = []
    for number in numbers:
        load = spec.loads[number]
        worker_cache.begin(spec, (0, load.op if isinstance(load, MaterializedRange) else load.source))
        unit = Task(spec, 0, load.number, attempt)
        match load:
            case MaterializedRange():
                unit.read_materialized(load)
            case Splits() if spec.measures_only:
                unit.measure(load.source, load.splits)
            case Splits():
                unit.read(load.source, load.splits)
            case _:
                assert_never(load)
        yield from _sent(unit)
        reports.append(unit.report)
    if reports:
        yield _reports(spec, reports)


def open_records(
    spec: JobSpec, stage: int, slot: int, attempt: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A task of a later stage: its own shuffle records are opened, all others go on."""
    starts = shuffle_records.slot_starts(spec.job, stage)
    own = next(e for e in spec.job.at(stage) if 0 <= slot - starts[e.id] < e.partitions)
    worker_cache.begin(spec, (stage, own.id))
    unit = Task(spec, stage, slot - starts[own.id], attempt)

    def mine() -> Iterator[tuple[int, bytes]]:
        for batch in batches:
            for row in batch.to_pylist():
                exchange, partition, ordinal, payload = (
                    row[name] for name in ("exchange", "partition", "ordinal", "payload")
                )
                if exchange == own.id:
                    yield ordinal, payload
                else:
                    unit.exchanges.passing.add(exchange, partition, ordinal, payload)

    unit.receive(own, mine())
    yield from _sent(unit)
    yield _reports(spec, [unit.report])


def _sent(unit: Task) -> Iterator[pa.RecordBatch]:
    """The payloads of a task; its report is complete then."""
    unit.close()
    yield from unit.exchanges.passing.batches()
    yield from unit.exchanges.buffer.batches()
    unit.release()


def _reports(spec: JobSpec, reports: Sequence[report.TaskReport]) -> pa.RecordBatch:
    """Reports on their way to the driver, by the stage and the number of the first."""
    stage, number = reports[0].stage, reports[0].number
    target = shuffle_records.slot(spec.job, stage + 1, shuffle_records.REPORTS, number)
    return shuffle_records.batch([(target, shuffle_records.REPORTS, number, stage, report.encode(reports))])


_SPECS: dict[tuple[int, int], JobSpec] = {}


def unpickled(pickled: bytes) -> JobSpec:
    """The job, unpickled once per worker process; jobs of earlier runs are forgotten."""
    key = (len(pickled), hash(pickled))
    if key not in _SPECS:
        _SPECS.clear()
        scratch.drop_copies()
        worker_cache.drop()
        _SPECS[key] = pickle.loads(pickled)
    return _SPECS[key]
