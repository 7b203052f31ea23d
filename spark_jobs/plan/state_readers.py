"""Connects the readers of variables with the state nodes that set them. Readers run in a later job.

A reader sees the values after the last record of state nodes upstream of it and of state nodes of the init phase.
If several set a variable, the last in the order of the graph counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.nodes.terms.needs import VariableRead
from spark_jobs.plan.checks import scoping

if TYPE_CHECKING:
    from spark_jobs.plan.binder import Bindings
    from spark_jobs.plan.plan import PlannedNode


def wire_state(nodes: tuple[PlannedNode, ...], bindings: Bindings) -> tuple[PlannedNode, ...]:
    """The nodes with steps that know which state nodes they wait for, and whether they are in the init phase."""
    init = scoping.init_nodes(bindings)
    awaited = _awaited(bindings, init)
    # A source that only a window of that phase reads has no other readers (E150c).
    ranged = {
        name
        for planned in nodes
        if planned.name in init and planned.step is not None
        for name in planned.step.record_properties.looked_up_nodes
    }
    early = init | ranged

    def wired(planned: PlannedNode) -> PlannedNode:
        step, found = planned.step, awaited.get(planned.name)
        if step is not None and found:
            step = replace(step, reads_variables=tuple(found.values()))
        return replace(planned, step=step, is_init=planned.name in early)

    return tuple(wired(planned) for planned in nodes)


def _awaited(bindings: Bindings, init: set[str]) -> dict[str, dict[str, VariableRead]]:
    """The awaited variables by node and path, without values that travel with their record."""
    writers = scoping.writers(bindings)
    found: dict[str, dict[str, VariableRead]] = {}
    for read in scoping.reads(bindings) if writers else ():
        if read.variable not in writers or read.path.startswith("record."):
            continue
        ancestors = bindings.graph.ancestors(read.node)
        early = init if read.node not in init else set()
        setters = [
            name for name in writers[read.variable] if name != read.node and (name in ancestors or name in early)
        ]
        setters.sort(key=lambda name: name not in init)
        sources = bindings.streams[read.node][read.input] if read.input else ()
        awaited = VariableRead(read.path, read.type, tuple(setters), tuple(sorted(sources)))
        found.setdefault(read.node, {})[read.path] = awaited
    return found
