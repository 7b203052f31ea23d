"""Jobs in this process, level by level, envelopes sorted as Spark would: for tests of everything but Spark."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.execute import envelopes, executor, joining, merging, name_search, report, work
from spark_jobs.execute import level as levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from spark_jobs.execute.spec import JobSpec
    from spark_jobs.scan.json_columns import Part


def run_chain(spark: object, spec: JobSpec) -> list[report.TaskReport]:
    """What `chain.run` does, without Spark."""
    rows: list[dict[str, object]] = []
    for number, pack in enumerate(spec.packs):
        rows += _rows(levels.read_pack(spec, pack, f"0-{number}"))
    for level in range(1, spec.job.levels):
        given: list[dict[str, object]] = []
        for slot in range(spec.job.slots(level)):
            mine = sorted(
                (row for row in rows if row["slot"] == slot), key=lambda row: (row["exchange"], row["ordinal"])
            )
            batches = [pa.RecordBatch.from_pylist([row], schema=envelopes.SCHEMA) for row in mine]
            given += _rows(levels.open_envelopes(spec, level, slot, f"{level}-{slot}", iter(batches)))
        rows = given
    reports = [report.TaskReport.decode(row["payload"]) for row in rows]  # type: ignore[arg-type]
    return sorted(reports, key=lambda each: (each.level, each.number))


def _rows(batches: object) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]  # type: ignore[attr-defined]


def merge_ranges(spark: object, wanted: Sequence[merging.Range]) -> list[joining.Piece]:
    """What `merging` does by tasks, without Spark."""
    numbers = pa.RecordBatch.from_pydict({"id": range(len(wanted))})
    told = [batch.to_pylist()[0] for batch in merging.run_task(pickle.dumps(tuple(wanted)), iter([numbers]))]
    assert [row["number"] for row in told] == [*range(len(wanted))]
    return merging.pieces(told)


def search_names(spark: object, packs: Sequence[tuple[Part, ...]]) -> list[dict[str, Any]]:
    """What `name_search` does by tasks, without Spark."""
    numbers = pa.RecordBatch.from_pydict({"id": range(len(packs))})
    told = [batch.to_pylist()[0] for batch in name_search.run_task(pickle.dumps(tuple(packs)), iter([numbers]))]
    assert [row["number"] for row in told] == [*range(len(packs))]
    return [json.loads(row["answer"]) for row in told]


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run jobs here from now on."""
    monkeypatch.setattr(work.chain, "run", run_chain)
    monkeypatch.setattr(merging, "_run", merge_ranges)
    monkeypatch.setattr(name_search, "_run", search_names)
    monkeypatch.setattr(executor.session, "open_session", lambda *_: object())
    monkeypatch.setattr(executor.session, "describe", lambda spark: {"application_id": "none"})
