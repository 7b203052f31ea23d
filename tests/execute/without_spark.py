"""Jobs in this process, as `clinker test` runs them: for tests of everything but Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.execute.run import executor, passes
from spark_jobs.execute.spark import in_process, spread

if TYPE_CHECKING:
    import pytest

    from spark_jobs.execute import report
    from spark_jobs.execute.tasks.spec import JobSpec


def run_chain(spark: object, spec: JobSpec) -> list[report.TaskReport]:
    """What `chain.run` does, without Spark."""
    return in_process.run(spec)


def answers(spark: object, pickled: bytes, count: int) -> list[dict[str, Any]]:
    """What `spread` has tasks do, without Spark; the last are the first to be done."""
    numbers = (pa.RecordBatch.from_pydict({"id": [number]}) for number in reversed(range(count)))
    return spread.rows_of(spread.run_task(pickled, numbers))


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run jobs here from now on."""
    monkeypatch.setattr(passes.chain, "run", run_chain)
    monkeypatch.setattr(spread, "_answers", answers)
    monkeypatch.setattr(executor.session, "open_session", lambda *_: object())
    monkeypatch.setattr(executor.session, "describe", lambda spark: {"application_id": "none"})
