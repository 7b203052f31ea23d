"""What plans can say and execution cannot do yet. This list may only shrink.

Binding marks nodes that it knows not to run (`PlannedNode.pending`); properties of steps that run only in part are
listed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.merge.step import MergeStep
from spark_jobs.nodes.output.step import OutputStep
from spark_jobs.nodes.source.step import SourceStep
from spark_jobs.nodes.transform.step import TransformStep
from spark_jobs.plan import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.plan.plan import Plan, PlannedNode

#: The endings of names that promise compression.
_COMPRESSED = (".gz", ".gzip", ".bz2", ".zst", ".xz", ".lz4", ".snappy", ".br", ".zip", ".z")


def pending(plan: Plan) -> list[Diagnostic]:
    """The diagnostics, one per node and property, that say what of a plan does not run yet."""
    found: list[Diagnostic] = []
    for planned in plan.nodes:
        if planned.pending is not None:
            found.append(planned.pending)
        for what in _properties(planned):
            message = f"{planned.kind} '{planned.name}': {what} does not run yet; it is checked and explained only"
            found.append(codes.E400.at(planned.span, message))
    for label, target in plan.errors.targets.items():
        for what in (*_uris(target.path), *_compressed(target.path)):
            message = f"{label}: {what} does not run yet; it is checked and explained only"
            found.append(codes.E400.at(target.place, message))
    return found


def _uris(*named: str | None) -> Iterator[str]:
    if any(path is not None and paths.is_remote(path) for path in named):
        yield "a path that is a URI"


def _compressed(*named: str | None) -> Iterator[str]:
    for path in named:
        if path is not None and path.lower().endswith(_COMPRESSED):
            yield f"a compressed file (`{path}`)"


def _properties(planned: PlannedNode) -> Iterator[str]:
    match planned.step:
        case SourceStep() as step:
            if step.correlation_key:
                yield "`correlation_key`"
            yield from _uris(*step.match.named)
            yield from _compressed(*step.match.named)
        case OutputStep(path=path):
            yield from _uris(path)
            yield from _compressed(path)
        case AggregateStep(time_window=window) if window is not None:
            yield "`time_window`"
        case TransformStep() as step:
            if step.window is not None:
                yield "`analytic_window`"
            if any(directive.rule for directive in step.log):
                yield "`log_rule`"
        case MergeStep(interleave=True):
            yield "`mode: interleave`"
