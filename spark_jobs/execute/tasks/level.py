"""A level of a job inside one Spark task: splits read, or parcels opened, and what comes of them sent on."""

from __future__ import annotations

import pickle
import uuid
from typing import TYPE_CHECKING

from spark_jobs.execute.spark import spread
from spark_jobs.execute.tasks import parcels
from spark_jobs.execute.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from spark_jobs.execute.tasks.spec import JobSpec


def run_level(pickled: bytes, level: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A level's part in one Spark task: what `mapInArrow` calls.

    Args:
        pickled: the job's `JobSpec`.
        level: 0 gets rows with the numbers of packs to read; later levels get parcels, sorted by exchange and
            ordinal.
        batches: the task's rows.

    Yields:
        Parcels.
    """
    from pyspark import TaskContext

    spec = unpickled(pickled)
    context = TaskContext.get()
    number = context.partitionId() if context else 0
    attempt = f"{context.attemptNumber() if context else 0}-{uuid.uuid4().hex[:8]}"
    if level == 0:
        for pack in spread.numbers_in(batches):
            yield from read_pack(spec, spec.packs[pack], attempt)
        return
    yield from open_parcels(spec, level, number, attempt, batches)


def read_pack(spec: JobSpec, pack: range, attempt: str) -> Iterator[pa.RecordBatch]:
    """A split of level 0, or several small ones of one source, which count as one task by the number of the first."""
    name = spec.splits[pack.start][0]
    places = [spec.splits[index][1] for index in pack]
    unit = Task(spec, 0, places[0].number, attempt)
    if spec.measures_only:
        unit.measure(name, places)
    else:
        unit.read(name, places)
    yield from _sent(unit)


def open_parcels(
    spec: JobSpec, level: int, slot: int, attempt: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A task of a later level: its own parcels are opened, all others go on."""
    starts = parcels.slot_starts(spec.job, level)
    own = next(e for e in spec.job.at(level) if 0 <= slot - starts[e.id] < e.partitions)
    unit = Task(spec, level, slot - starts[own.id], attempt)

    def mine() -> Iterator[tuple[int, bytes]]:
        for batch in batches:
            for row in batch.to_pylist():
                exchange, partition, ordinal, payload = (
                    row[name] for name in ("exchange", "partition", "ordinal", "payload")
                )
                if exchange == own.id:
                    yield ordinal, payload
                else:
                    unit.passing.add(exchange, partition, ordinal, payload)

    unit.receive(own, mine())
    yield from _sent(unit)


def _sent(unit: Task) -> Iterator[pa.RecordBatch]:
    """What a task gives: its payloads, then its report."""
    unit.close()
    number = unit.report.number
    target = parcels.slot(unit.spec.job, unit.level + 1, parcels.REPORTS, number)
    yield from unit.passing.batches()
    yield from unit.outbox.batches()
    unit.release()
    yield parcels.batch([(target, parcels.REPORTS, number, 0, unit.report.encode())])


_SPECS: dict[tuple[int, int], JobSpec] = {}


def unpickled(pickled: bytes) -> JobSpec:
    """The job, unpickled once per worker process; jobs of earlier runs are forgotten."""
    key = (len(pickled), hash(pickled))
    if key not in _SPECS:
        _SPECS.clear()
        _SPECS[key] = pickle.loads(pickled)
    return _SPECS[key]
