"""The description of aggregates for `explain` and lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.nodes import program_reads
from spark_jobs.nodes.aggregate.timed.time_window import Kind
from spark_jobs.nodes.records.columns import group_number
from spark_jobs.nodes.terms.description import ColumnDerivation, Description, Expression, no_files, runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.aggregate.step import AggregateStep
    from spark_jobs.nodes.aggregate.timed.time_window import TimeWindow
    from spark_jobs.nodes.terms.description import PlanContext


def _facts(step: AggregateStep, context: PlanContext) -> dict[str, str]:
    asked = "" if step.strategy == "auto" else f" (`strategy: {step.strategy}` asks for nothing else)"
    order = f"order of {'' if step.time_window is None else 'their windows, then of '}first appearance"
    facts = {"strategy": f"hash; groups in {order}{asked}"}
    if step.time_window is not None:
        facts |= _time_window(step.time_window)
    facts["group_by"] = ", ".join(step.group_by) or "<all records>"
    facts["accumulators"] = ", ".join(call.function for call in step.program.calls) or "<none>"
    return facts


def _time_window(window: TimeWindow) -> dict[str, str]:
    size, slide = (f"{length / 1_000_000:g} s" for length in (window.size_us, window.slide_us))
    words = {Kind.SESSION: f"ended by {size} without a record", Kind.HOPPING: f"of {size}, each {slide}"}
    return {
        "time window": f"{window.kind}, {words.get(window.kind, f'of {size}')}",
        "allowed lateness": f"{window.lateness_us / 1_000_000:g} s; what is later is a dead letter",
    }


def _programs(step: AggregateStep) -> Iterator[Expression]:
    yield Expression("before", step.program.before)
    yield Expression("after", step.program.after, title=None)


def _trace(step: AggregateStep, column: str) -> ColumnDerivation:
    if column == group_number(step.name):
        return ColumnDerivation("numbered")
    if column not in dict(step.program.after.emits):
        return ColumnDerivation("grouped by", ((0, column),))
    return ColumnDerivation("aggregated", tuple((0, name) for name in program_reads.inputs_of(step.program, column)))


DESCRIPTION = Description(
    parallel=lambda step: "key",
    facts=_facts,
    programs=_programs,
    trace=_trace,
    details=None,
    unready=runs,
    files=no_files,
    slug="aggregation",
)
