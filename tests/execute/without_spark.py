"""Jobs in this process, level by level, shuffle records sorted as Spark would: for tests of everything but Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.execute.run import executor, passes
from spark_jobs.execute.spark import spread
from spark_jobs.execute.tasks import level as levels
from spark_jobs.execute.tasks import report, shuffle_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from spark_jobs.execute.tasks.spec import JobSpec


def run_chain(spark: object, spec: JobSpec) -> list[report.TaskReport]:
    """What `chain.run` does, without Spark."""
    rows: list[dict[str, Any]] = []
    for number in range(len(spec.loads)):
        rows += _rows(levels.read_loads(spec, [number], f"0-{number}"))
    for level in range(1, spec.job.levels):
        given: list[dict[str, Any]] = []
        for slot in range(spec.job.slots(level)):
            mine = sorted(
                (row for row in rows if row["slot"] == slot), key=lambda row: (row["exchange"], row["ordinal"])
            )
            batches = [pa.RecordBatch.from_pylist([row], schema=shuffle_records.SCHEMA) for row in mine]
            given += _rows(levels.open_records(spec, level, slot, f"{level}-{slot}", iter(batches)))
        rows = given
    reports = [each for row in rows for each in report.decode(row["payload"])]
    return sorted(reports, key=lambda each: (each.level, each.number))


def _rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def answers(spark: object, pickled: bytes, count: int) -> list[dict[str, Any]]:
    """What `spread` has tasks do, without Spark; the last are the first to be done."""
    numbers = (pa.RecordBatch.from_pydict({"id": [number]}) for number in reversed(range(count)))
    return _rows(spread.run_task(pickled, numbers))


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run jobs here from now on."""
    monkeypatch.setattr(passes.chain, "run", run_chain)
    monkeypatch.setattr(spread, "_answers", answers)
    monkeypatch.setattr(executor.session, "open_session", lambda *_: object())
    monkeypatch.setattr(executor.session, "describe", lambda spark: {"application_id": "none"})
