"""What there is to say of an aggregate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.nodes import tree
from spark_jobs.nodes.terms.description import Description, Expression, Made, no_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.aggregate.step import AggregateStep
    from spark_jobs.nodes.terms.description import Around


def _facts(step: AggregateStep, around: Around) -> dict[str, str]:
    asked = "" if step.strategy == "auto" else f" (`strategy: {step.strategy}` asks for nothing else)"
    facts = {"strategy": f"hash; groups in order of first appearance{asked}"}
    if step.time_window is not None:
        facts |= _time_window(step.time_window)
    facts["group_by"] = ", ".join(step.group_by) or "<all records>"
    facts["accumulators"] = ", ".join(call.function for call in step.program.calls) or "<none>"
    return facts


def _time_window(window: Any) -> dict[str, str]:
    size = {"session": "ended by {0:g} s without a record", "hopping": "of {0:g} s, each {1:g} s"}
    words = size.get(window.kind, "of {0:g} s").format(window.size_s, window.slide_s or 0)
    return {
        "time window": f"{window.kind}, {words}",
        "allowed lateness": f"{window.allowed_lateness_s:g} s; what is later is a dead letter",
    }


def _programs(step: AggregateStep) -> Iterator[Expression]:
    yield Expression("before", step.program.before)
    yield Expression("after", step.program.after, title=None)


def _trace(step: AggregateStep, column: str) -> Made:
    if column not in dict(step.program.after.emits):
        return Made("grouped by", ((0, column),))
    return Made("aggregated", tuple((0, name) for name in _read(step, column)))


def _read(step: AggregateStep, column: str) -> Iterator[str]:
    """The columns behind the arguments of the functions that an emit calls, and those that it names itself."""
    calls = {call.result: call for call in step.program.calls}
    for name in tree.behind(step.program.after, column):
        if name not in calls:
            yield name
            continue
        for argument in calls[name].arguments:
            yield from tree.behind(step.program.before, argument) if argument.startswith("$") else [argument]


def _unready(step: AggregateStep) -> Iterator[str]:
    if step.time_window is not None:
        yield "`time_window`"


DESCRIPTION = Description(
    parallel="key",
    facts=_facts,
    programs=_programs,
    trace=_trace,
    details=None,
    unready=_unready,
    files=no_files,
    slug="aggregation",
)
