"""What plans can say and execution cannot do yet. This list may only shrink.

Binding marks nodes that it knows not to run (`PlannedNode.pending`); properties of steps that run only in part are
listed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.merge.step import MergeStep
from spark_jobs.nodes.source.step import SourceStep
from spark_jobs.nodes.transform.step import TransformStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.plan.plan import Plan, PlannedNode


def pending(plan: Plan) -> list[Diagnostic]:
    """The diagnostics, one per node and property, that say what of a plan does not run yet."""
    found: list[Diagnostic] = []
    for planned in plan.nodes:
        if planned.pending is not None:
            found.append(planned.pending)
        for what in _properties(planned):
            message = f"{planned.kind} '{planned.name}': {what} does not run yet; it is checked and explained only"
            found.append(codes.E400.at(planned.span, message))
    return found


def _properties(planned: PlannedNode) -> Iterator[str]:
    match planned.step:
        case SourceStep(correlation_key=key) if key:
            yield "`correlation_key`"
        case AggregateStep(time_window=window) if window is not None:
            yield "`time_window`"
        case TransformStep() as step:
            if step.window is not None:
                yield "`analytic_window`"
            if any(directive.rule for directive in step.log):
                yield "`log_rule`"
        case MergeStep(interleave=True):
            yield "`mode: interleave`"
