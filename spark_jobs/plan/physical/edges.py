"""Passages of edges: whether records are pipelined, shuffled or materialized; and which expressions run natively."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import typed
from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes import program_reads
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.shape import Arrival, LocalPhase, Passage, Role
from spark_jobs.nodes.windows import decompose
from spark_jobs.plan.physical import physical, upstream

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from spark_jobs.nodes.terms.needs import Rows
    from spark_jobs.plan.plan import Input, Plan, PlannedNode


#: Records that go on when all of them have been read: what goes on waits for values of all, or for a task that reads.
_LATER = Arrival(Passage.WRITTEN, "a job keeps them, and a later one goes on with them")


@dataclass(frozen=True)
class Edge:
    """An edge with its passage and the reason for it."""

    producer: str
    port: str
    consumer: str
    qualifier: str
    arrival: Arrival

    @property
    def passage(self) -> Passage:
        """The passage of records from one node to the other."""
        return self.arrival.passage

    @property
    def reason(self) -> str:
        """Why it is this passage."""
        return self.arrival.why


def edges(plan: Plan, materialized: frozenset[str] = frozenset()) -> list[Edge]:
    """All edges, by consumer in topological order; `materialized` are the sources that one task reads for others."""
    resumed = _resumed(plan, materialized)
    return [_edge(planned, *each, resumed) for planned in plan.nodes for each in upstream.inputs(planned)]


def _resumed(plan: Plan, materialized: frozenset[str]) -> Set[tuple[str, str]]:
    """The edges whose records one job materializes and a later one reads, as producer and consumer."""
    return {
        (op.step.name, job.ops[target.op].step.name)
        for job in physical.jobs(plan, materialized)
        for op in job.ops.values()
        if op.role is Role.READ_MATERIALIZED
        for target in op.targets
    }


def _edge(planned: PlannedNode, edge: Input, written: Rows | None, resumed: Set[tuple[str, str]]) -> Edge:
    arrival = _arrival(planned, written)
    if arrival == shape.STAYS and (edge.node, planned.name) in resumed:
        arrival = _LATER
    return Edge(edge.node, edge.port, planned.name, edge.qualifier, arrival)


def _arrival(planned: PlannedNode, written: Rows | None) -> Arrival:
    """Find the passage of records to the first phase of a node that has to materialize or shuffle them."""
    if planned.step is None:
        return shape.STAYS
    phases = physical.phases(planned.step)
    if written is not None and written.go_on:
        return Arrival(Passage.WRITTEN, written.why)
    if written is not None and all(
        isinstance(phase, LocalPhase) or phase.co_partitioned != written for phase in phases
    ):
        return Arrival(Passage.BROADCAST, written.why)
    return next((each.arrival for each in phases if each.arrival != shape.STAYS), shape.STAYS)


def is_materialized(name: str, passing: Iterable[Edge]) -> bool:
    """True if a node's records are kept between stages on their way out."""
    return any(edge.producer == name and edge.passage is not Passage.PIPELINED for edge in passing)


@dataclass(frozen=True)
class Interpreted:
    """A call that runs row by row, and why."""

    call: str
    reason: str


def interpreted(program: Any) -> list[Interpreted]:
    """The calls of a program that have no Arrow kernel, each once."""
    registry = declare.registry()
    found: dict[str, Interpreted] = {}
    has_windows = False
    for part in program_reads.parts(program):
        has_windows = has_windows or isinstance(part, typed.WindowCall)
        if isinstance(part, typed.Call) and part.builtin in registry:
            kernel = registry[part.builtin].arrow
            if isinstance(kernel, declare.INTERPRETED):
                found.setdefault(part.builtin, Interpreted(part.builtin, kernel.reason))
    for call in decompose.decomposed(program, {}).calls if has_windows else ():
        if call.obstacle is not None:
            found.setdefault(call.text, Interpreted(call.text, call.obstacle))
    return list(found.values())
