"""Makes a case from real records: the first ones of a pipeline's sources, or dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.cli import shown_nodes
from spark_jobs.cli.cases import model, running, writing
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.disk import durable
from spark_jobs.execute import identity
from spark_jobs.execute.dlq import reading_again, work_list
from spark_jobs.execute.run import executor
from spark_jobs.plan import planner
from spark_jobs.plan.options import PlanOptions, RunOptions
from spark_jobs.plan.reading import document

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spark_jobs.plan.plan import Plan
    from spark_jobs.stores.location import FilePath

    Row = dict[str, Any]


class NotRecorded(Exception):
    """No case could be made; the message says why."""


def record(pipeline: Path, name: str, rows: int, letters: FilePath | None) -> Path:
    """Add a case to the file of cases beside a pipeline; returns the path of that file.

    Args:
        pipeline: the pipeline's file.
        name: the name of the case.
        rows: how many records of each source.
        letters: a dead-letter file. For sources with records in it, these are used.

    Raises:
        NotRecorded: the pipeline has errors, or its inputs cannot be read.
        OSError: a file cannot be read or written.
    """
    Diagnostics()
    plan, _found = planner.plan(pipeline, PlanOptions())
    if plan is None:
        raise NotRecorded("the pipeline has errors: `clinker validate` shows them")
    given = _first(pipeline, rows)
    if letters is not None:
        given |= _dead(plan, letters)
    config = model.Case.model_validate({"name": name, "given": given})
    ran = running.run(running.Setup(pipeline, pipeline.parent, config))
    path = pipeline.parent / "tests" / f"{pipeline.stem}.test.yaml"
    text = writing.case(name, given, ran, list(plan.outputs))
    if path.exists():
        before = path.read_text(encoding="utf-8")
        durable.replace_text(path, before.rstrip("\n") + f"\n\n{text}")
    else:
        path.parent.mkdir(exist_ok=True)
        durable.replace_text(path, f"pipeline: ../{pipeline.name}\n\ncases:\n{text}")
    return path


def _first(pipeline: Path, count: int) -> dict[str, list[Row]]:
    """The first records of each source, as they are read."""
    file = document.open_text(pipeline, Diagnostics())
    read = document.read(file, PlanOptions().lookup, Diagnostics()) if file else None
    assert read is not None, "it was planned"
    sources = shown_nodes.of_kind(read, "source")
    named = {f"clinker_test_{number}": name for number, name in enumerate(sources)}
    read.nodes += shown_nodes.added(named)
    plan = planner.plan_document(read, pipeline, PlanOptions(), Diagnostics())
    assert plan is not None, "it was planned"
    shown: dict[str, str] = {}
    options = RunOptions(threads=1, quiet=True, in_process=True, preview=count, dry_run=True, log_level="error")
    outcome = executor.execute(plan, options, identity.Identity.new(None, None), shown.__setitem__)
    if outcome.result.error is not None:
        raise NotRecorded(str(outcome.result.error))
    found: dict[str, list[Row]] = {}
    for node, name in named.items():
        lines = shown.get(node, "").split("\n")
        decimals = shown_nodes.decimals_of(plan.outputs[node])
        found[name] = [_known(shown_nodes.record(line, decimals)) for line in lines if line]
    return found


def _known(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def _dead(plan: Plan, letters: FilePath) -> dict[str, list[Row]]:
    """The records of dead letters by source, each once."""
    found: dict[str, dict[tuple[str, str, str], work_list.Entry]] = {}
    for entry in work_list.read(letters, plan.stores).entries:
        if entry.source in plan.sources and any(entry.record.values()):
            found.setdefault(entry.source, {}).setdefault(entry.origin, entry)
    return {
        name: [_known(row) for row in reading_again.rows(plan.sources[name], _all(entries.values()))]
        for name, entries in found.items()
    }


def _all(entries: Any) -> Sequence[work_list.Entry]:
    return list(entries)
