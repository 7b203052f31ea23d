"""Which columns anything downstream needs, found backwards, so that sources carry no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.nodes import registry
from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.aggregate.totals import COUNTERS, Totals
from spark_jobs.nodes.binding import META
from spark_jobs.nodes.source.step import PROVENANCE, SourceStep
from spark_jobs.plan.physical import regions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_jobs.nodes import node
    from spark_jobs.plan.binder import Compiled
    from spark_jobs.plan.plan import Input, PlannedNode


def prune(
    nodes: tuple[PlannedNode, ...], programs: Mapping[str, list[Compiled]], declared: Sequence[str]
) -> tuple[PlannedNode, ...]:
    """The nodes with `live`, `reads_source`, `failure_stage` of sources filled in.

    And with the `totals` of aggregates: their groups know these, so nobody upstream is asked for them.

    Args:
        nodes: the nodes in topological order.
        programs: their programs.
        declared: the names of the nodes in the order of the file: a failed conversion names the first of a source's
            consumers (decision 108).
    """
    number = {name: position for position, name in enumerate(declared)}
    wanted: dict[str, set[str]] = {planned.name: set() for planned in nodes}
    members: dict[str, set[str]] = {planned.name: set() for planned in nodes}
    first: dict[str, node.Step] = {}
    kinds = registry.node_types()
    for planned in reversed(nodes):
        members[planned.name] |= _system(programs.get(planned.name, []), "after")
        if planned.step is None:
            continue
        sets = kinds[planned.kind].reads(planned.step, frozenset(wanted[planned.name]))
        own = _system(programs.get(planned.name, []), "before") | planned.step.shown
        behind = set() if isinstance(planned.step, AggregateStep) else members[planned.name]
        streams = regions.streams(planned)
        for index, edge in enumerate(planned.inputs):
            if sets:
                wanted[edge.node] |= _set_for(planned, index, sets)
            # Records that are only looked up do not go on: nobody behind the node asks where they come from.
            members[edge.node] |= own | (behind if edge in streams else set())
            known = first.get(edge.node)
            if known is None or number[planned.name] < number[known.name]:
                first[edge.node] = planned.step
    found = tuple(_with_live(planned, wanted, members, first.get(planned.name)) for planned in nodes)
    if any(getattr(planned.step, "undeclared", ()) for planned in nodes):
        found = tuple(_lifted(planned) for planned in found)
    return tuple(_with_totals(planned, members[planned.name], found) for planned in found)


def _set_for(planned: PlannedNode, index: int, sets: tuple[frozenset[str], ...]) -> frozenset[str]:
    if len(sets) == 1:
        return sets[0]
    # Nodes with named inputs list their sets in the order of the inputs.
    return sets[index]


def _system(programs: list[Compiled], part: str) -> set[str]:
    """The values of the surroundings that a node's programs read, by path: of an aggregate those of one part."""
    found: set[str] = set()
    for compiled in programs:
        found |= getattr(compiled.program, part, compiled.program).system
    return found


def _with_live(
    planned: PlannedNode, wanted: Mapping[str, set[str]], members: Mapping[str, set[str]], first: node.Step | None
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
        provenance=frozenset(
            key for key in PROVENANCE if META + key in wanted[planned.name] or f"meta.{key}" in members[planned.name]
        ),
        reads_source=frozenset(_source_members(members[planned.name])),
        failure_stage=(first or step).stage,
        failure_node=(first or step).name,
    )
    return replace(planned, step=live_step)


def _lifted(planned: PlannedNode) -> PlannedNode:
    """A source of a pipeline that reads undeclared columns somewhere."""
    step = planned.step
    return replace(planned, step=replace(step, lifted=True)) if isinstance(step, SourceStep) else planned


def _source_members(paths: set[str]) -> set[str]:
    """What programs read of `$source`; and the record's position, which is a matter of the source as well."""
    found = {path.removeprefix("source.") for path in paths if path.startswith("source.")}
    return found | ({"total_count"} if "pipeline.total_count" in paths else set())


def _with_totals(planned: PlannedNode, members: set[str], nodes: tuple[PlannedNode, ...]) -> PlannedNode:
    read = members & COUNTERS
    if not isinstance(planned.step, AggregateStep) or not read:
        return planned
    by_name = {each.name: each for each in nodes}
    everything = _upstream(planned, by_name, lambda each: list(each.inputs))
    grouped = _upstream(planned, by_name, regions.streams)
    sources = frozenset(name for name in everything if by_name[name].kind == "source")
    totals = Totals(tuple(sorted(read)), frozenset(everything), sources, sources & grouped)
    return replace(planned, step=replace(planned.step, totals=totals))


def _upstream(
    planned: PlannedNode, nodes: Mapping[str, PlannedNode], edges: Callable[[PlannedNode], list[Input]]
) -> set[str]:
    """A node and all that it is reached from."""
    found, waiting = set(), [planned.name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [edge.node for edge in edges(nodes[name])]
    return found
