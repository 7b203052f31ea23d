"""Which columns anything downstream needs, found backwards, so that sources carry no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.nodes import registry
from spark_jobs.nodes.source.step import SourceStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.plan.binder import Compiled
    from spark_jobs.plan.plan import PlannedNode


def prune(nodes: tuple[PlannedNode, ...], programs: Mapping[str, list[Compiled]]) -> tuple[PlannedNode, ...]:
    """The nodes, in their topological order, with `live`, `reads_source`, `failure_stage` of sources filled in."""
    wanted: dict[str, set[str]] = {planned.name: set() for planned in nodes}
    members: dict[str, set[str]] = {planned.name: set() for planned in nodes}
    stages: dict[str, str] = {}
    kinds = registry.node_types()
    for planned in reversed(nodes):
        members[planned.name] |= _source_members(programs.get(planned.name, []))
        if planned.step is None:
            continue
        sets = kinds[planned.kind].reads(planned.step, frozenset(wanted[planned.name]))
        for index, edge in enumerate(planned.inputs):
            if sets:
                wanted[edge.node] |= _set_for(planned, index, sets)
            members[edge.node] |= members[planned.name]
            stages[edge.node] = planned.step.stage
    return tuple(_with_live(planned, wanted, members, stages) for planned in nodes)


def _set_for(planned: PlannedNode, index: int, sets: tuple[frozenset[str], ...]) -> frozenset[str]:
    if len(sets) == 1:
        return sets[0]
    # Nodes with named inputs list their sets in the order of the inputs.
    return sets[index]


def _source_members(programs: list[Compiled]) -> set[str]:
    found: set[str] = set()
    for compiled in programs:
        for program in _programs(compiled.program):
            found |= {path.removeprefix("source.") for path in program.system if path.startswith("source.")}
            if "pipeline.source_row" in program.system:
                found.add("row")
            if "pipeline.total_count" in program.system:
                found.add("total_count")
    return found


def _programs(program: Any) -> list[Any]:
    parts = [getattr(program, name) for name in ("before", "after") if hasattr(program, name)]
    return parts or [program]


def _with_live(
    planned: PlannedNode, wanted: Mapping[str, set[str]], members: Mapping[str, set[str]], stages: Mapping[str, str]
) -> PlannedNode:
    step = planned.step
    if not isinstance(step, SourceStep):
        return planned
    declared = {column.name for column in step.columns}
    live = frozenset(wanted[planned.name]) & declared | frozenset(step.correlation_key)
    if step.watermark_column:
        live |= {step.watermark_column}
    live_step = replace(
        step,
        live=live,
        reads_source=frozenset(members[planned.name]),
        failure_stage=stages.get(planned.name, step.stage),
    )
    return replace(planned, step=live_step)
