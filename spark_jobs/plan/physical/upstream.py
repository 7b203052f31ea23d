"""The inputs of a node: records within its job, and records and values that earlier jobs have materialized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.nodes.terms.needs import Rows, Values

if TYPE_CHECKING:
    from spark_jobs.nodes import node
    from spark_jobs.plan import plan as plans


def inputs(planned: plans.PlannedNode) -> list[tuple[plans.Input, Rows | None]]:
    """The edges into a node, each with the need that an earlier job materializes from it, if any."""
    rows = (need for need in planned.step.needs if isinstance(need, Rows)) if planned.step else ()
    needs = {need.input: need for need in rows}
    return [(edge, needs.get(edge.qualifier or str(number))) for number, edge in enumerate(planned.inputs)]


def streams(planned: plans.PlannedNode) -> list[plans.Input]:
    """The edges whose records continue through the node; the one whose order it keeps comes first."""
    return [edge for edge, written in inputs(planned) if written is None or written.go_on]


def pipelined(planned: plans.PlannedNode) -> list[plans.Input]:
    """The edges whose records come within the same job."""
    return [edge for edge, written in inputs(planned) if written is None]


def materialized(planned: plans.PlannedNode) -> list[plans.Input]:
    """The edges whose records an earlier job materialized."""
    return [edge for edge, written in inputs(planned) if written is not None]


def awaited(planned: plans.PlannedNode) -> list[str]:
    """The state nodes whose final values a node reads."""
    needs = planned.step.needs if planned.step else ()
    return [need.node for need in needs if isinstance(need, Values)]


def output_rows(name: str) -> Rows:
    """The materialized output of a node."""
    return Rows(name, "", go_on=True)


def step(planned: plans.PlannedNode) -> node.Step:
    """The step of a node; a plan that has nodes without is refused before (`plan/pending.py`)."""
    if planned.step is None:
        raise ValueError(f"{planned.name} is not ready to run")
    return planned.step
