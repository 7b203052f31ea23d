"""How records pass each edge on Spark, in the book's terms (decision 44), and where expressions run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import typed
from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes import tree
from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.combine.step import CombineStep
from spark_jobs.nodes.output.step import OutputStep
from spark_jobs.nodes.transform.step import TransformStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.plan.plan import Input, Plan, PlannedNode


class Passage(StrEnum):
    """How records get from one node to the next.

    Inside a task, by a Spark shuffle, as sorted runs that other tasks merge, or written down for every task.
    """

    PIPELINED = "streaming (pipelined)"
    SHUFFLED = "materialized (shuffled by key)"
    SORTED = "materialized (sorted runs, merged by ranges of the key)"
    BROADCAST = "materialized (written down, read by every task)"


@dataclass(frozen=True)
class Edge:
    """An edge with its passage and the reason for it."""

    producer: str
    port: str
    consumer: str
    qualifier: str
    passage: Passage
    reason: str


def edges(plan: Plan) -> list[Edge]:
    """All edges, by consumer in topological order."""
    return [_edge(planned, edge) for planned in plan.nodes for edge in planned.inputs]


def _edge(planned: PlannedNode, edge: Input) -> Edge:
    passage, reason = Passage.PIPELINED, "records stay in the task that read them"
    match planned.step:
        case AggregateStep():
            passage, reason = Passage.SHUFFLED, "equal keys meet; partial groups are built before the shuffle"
        case CombineStep(wants_shuffle=True, is_keyed=True) as step if edge.qualifier in (step.driver, step.builds[0]):
            passage, reason = Passage.SHUFFLED, "records with equal keys meet (strategy: grace_hash)"
        case CombineStep(driver=driver) if edge.qualifier != driver:
            passage, reason = Passage.BROADCAST, "build side of the combine; shuffled by key where it is large"
        case TransformStep(window=window) if window is not None:
            passage, reason = Passage.SHUFFLED, "rows of a partition meet"
        case TransformStep(program=program) if any(isinstance(s, typed.Distinct) for s in program.statements):
            passage, reason = Passage.SHUFFLED, "equal values meet"
        case OutputStep(sort_order=order) if order:
            passage, reason = Passage.SORTED, "records are written in the order of `sort_order`"
    return Edge(edge.node, edge.port, planned.name, edge.qualifier, passage, reason)


def is_materialized(plan: Plan, name: str) -> bool:
    """Whether a node's records are kept between stages on their way out."""
    return any(edge.producer == name and edge.passage is not Passage.PIPELINED for edge in edges(plan))


@dataclass(frozen=True)
class Interpreted:
    """A call that runs row by row, and why."""

    call: str
    reason: str


def interpreted(program: Any) -> list[Interpreted]:
    """The calls of a program that have no Arrow kernel, each once."""
    registry = declare.registry()
    found: dict[str, Interpreted] = {}
    for part in tree.parts(program):
        if isinstance(part, typed.Call) and part.builtin in registry:
            kernel = registry[part.builtin].arrow
            if isinstance(kernel, declare.INTERPRETED):
                found.setdefault(part.builtin, Interpreted(part.builtin, kernel.reason))
    return list(found.values())


def programs(planned: PlannedNode) -> Iterator[tuple[str, Any]]:
    """The programs of a node with the names of what they are."""
    step: Any = planned.step
    match planned.kind:
        case "transform":
            yield "cxl", step.program
            for validation in step.validations:
                yield f"validation {validation.name}", validation.check
        case "aggregate":
            yield "before", step.program.before
            yield "after", step.program.after
        case "route":
            yield from step.branches
        case "combine":
            for equality in step.equalities:
                yield "key", equality.driver
                yield "key", equality.build
            if step.residual is not None:
                yield "residual", step.residual
            if step.body is not None:
                yield "cxl", step.body
        case "state":
            for assignment in step.assignments:
                value = assignment.value
                parts = (value.before, value.after) if isinstance(value, typed.AggregateProgram) else (value,)
                yield from ((assignment.path, part) for part in parts)
