"""Projection pushdown: the columns that each node requires, found from the outputs back to the sources."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.nodes import registry
from spark_jobs.nodes.records.columns import CORRELATION
from spark_jobs.nodes.terms.required_columns import NOTHING
from spark_jobs.nodes.terms.requirements import Requirements, Upstream
from spark_jobs.plan.physical import upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_jobs.formats.typed.pruning import Test
    from spark_jobs.nodes import node
    from spark_jobs.nodes.terms.required_columns import RequiredColumns
    from spark_jobs.plan.binder import Compiled
    from spark_jobs.plan.plan import Input, PlannedNode


def prune(
    nodes: tuple[PlannedNode, ...], programs: Mapping[str, list[Compiled]], declared: Sequence[str]
) -> tuple[PlannedNode, ...]:
    """The nodes with steps that know the requirements of steps downstream (see `Step.pruned`).

    Args:
        nodes: the nodes in topological order.
        programs: their programs.
        declared: the names of the nodes in the order of the file: a failed conversion names the first of a source's
            consumers.
    """
    number = {name: position for position, name in enumerate(declared)}
    asks = required_by_node(nodes)
    members: dict[str, set[str]] = {planned.name: set() for planned in nodes}
    first: dict[str, node.Step] = {}
    takers: dict[str, list[node.Step | None]] = {planned.name: [] for planned in nodes}
    for planned in reversed(nodes):
        members[planned.name] |= _system(programs.get(planned.name, []), "after")
        for edge in planned.inputs:
            takers[edge.node].append(planned.step)
        for name in planned.step.record_properties.looked_up_nodes if planned.step is not None else ():
            takers[name].append(planned.step)
        if planned.step is None:
            continue
        own = _system(programs.get(planned.name, []), "before") | planned.step.member_properties.reads
        passed_on = members[planned.name] if planned.step.record_properties.preserves_records else set()
        streams = upstream.streams(planned)
        for edge in planned.inputs:
            # Records that are only looked up do not go on: nobody downstream of the node asks where they come from.
            members[edge.node] |= own | (passed_on if edge in streams else set())
            known = first.get(edge.node)
            if known is None or number[planned.name] < number[known.name]:
                first[edge.node] = planned.step
    reads_undeclared = any(
        planned.step is not None and planned.step.column_properties.names_undeclared for planned in nodes
    )
    by_name = {planned.name: planned for planned in nodes}
    is_correlated = any(column in CORRELATION for planned in nodes for column in _columns(planned))

    def pruned(planned: PlannedNode) -> PlannedNode:
        if planned.step is None:
            return planned
        name = planned.name
        values = frozenset(members[name])
        predicates = _pushed_predicates(takers[name])
        shown = _shown(planned, by_name) if is_correlated else frozenset()
        above = partial(_upstream_names, planned, by_name)
        required = Requirements(asks[name], values, first.get(name), reads_undeclared, predicates, shown, above)
        return replace(planned, step=planned.step.pruned(required))

    return tuple(pruned(planned) for planned in nodes)


def _pushed_predicates(takers: Sequence[node.Step | None]) -> tuple[Test, ...]:
    """The pushed-down predicates of the only step that takes some records."""
    only = takers[0] if len(takers) == 1 else None
    return only.column_properties.pushed_predicates if only is not None else ()


def required_by_node(nodes: Sequence[PlannedNode]) -> dict[str, RequiredColumns]:
    """The columns that anything downstream of each node reads."""
    found = {planned.name: NOTHING for planned in nodes}
    kinds = registry.node_types()
    for planned in reversed(nodes):
        if planned.step is not None:
            sets = kinds[planned.kind].reads(planned.step, found[planned.name])
            for index, edge in enumerate(planned.inputs):
                if sets:
                    found[edge.node] |= _set_for(planned, index, sets)
    return found


def _set_for(planned: PlannedNode, index: int, sets: tuple[RequiredColumns, ...]) -> RequiredColumns:
    if len(sets) == 1:
        return sets[0]
    # Nodes with named inputs list their sets in the order of the inputs.
    return sets[index]


def _system(programs: list[Compiled], part: str) -> set[str]:
    """The `$…` values that a node's programs read, by path; for an aggregate, the programs of one phase."""
    found: set[str] = set()
    for compiled in programs:
        found |= getattr(compiled.program, part, compiled.program).system
    return found


def _upstream_names(planned: PlannedNode, nodes: Mapping[str, PlannedNode]) -> Upstream:
    everything = _upstream(planned, nodes, lambda each: list(each.inputs))
    streams = _upstream(planned, nodes, upstream.streams)
    sources = frozenset(name for name in everything if nodes[name].is_source)
    return Upstream(frozenset(everything), sources, sources & streams)


def _shown(planned: PlannedNode, nodes: Mapping[str, PlannedNode]) -> frozenset[str]:
    """The columns of sources, downstream of nodes that make groups."""
    above = [nodes[name] for name in _upstream(planned, nodes, upstream.streams)]
    if all(each.step is None or each.step.record_properties.group_by is None for each in above):
        return frozenset()
    return frozenset(column for each in nodes.values() if each.is_source for column in _columns(each))


def _columns(planned: PlannedNode) -> set[str]:
    """The columns of all that a node gives."""
    return {column.name for row in planned.outputs.values() for column in row}


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
