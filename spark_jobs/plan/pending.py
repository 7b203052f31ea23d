"""Features that plans can express, but execution does not support yet.

Binding marks nodes that do not run yet (`PlannedNode.pending`). Node types list unsupported features of steps that run
only in part (`Description.unready`). All of these lists may only shrink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.nodes import registry
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import DeadLetterTarget, Plan, PlannedNode

#: The remedy for paths that are URIs.
NO_URIS = (
    "s3://, gs://, abfss:// and hdfs:// URIs are read and written; copy other files to a folder first, or mount the "
    "file system, and write the path of that; "
    "REST services are read by `transport: {kind: rest, url: …}`"
)
#: The endings of names that promise compression which neither Python nor Arrow has for streams.
_COMPRESSED = (".snappy", ".br", ".zip", ".z")


def pending(plan: Plan, discover: Callable[[], Mapping[str, Discovered]] | None = None) -> list[Diagnostic]:
    """The diagnostics, one per node and property, that say what of a plan does not run yet.

    `discover` gives the files of the sources: a pattern that no file matches has nothing that would have to be read.
    """
    found = [item for planned in plan.nodes for item in of_node(planned) if not _is_unmatched(plan, planned, discover)]
    for label, target in plan.errors.targets.items():
        found += _dlq_uris(label, target)
        found += [not_yet(label, what, target.place) for what in _compressed(target.path)]
    return found


def of_node(planned: PlannedNode) -> list[Diagnostic]:
    """The diagnostics about what no run does yet, of one node."""
    found = [] if planned.pending is None else [planned.pending]
    label = f"{planned.kind} '{planned.name}'"
    found += [not_yet(label, what, planned.span) for what in _properties(planned)]
    return found + _uris_of(planned)


def uris(plan: Plan) -> list[Diagnostic]:
    """Errors for URIs that no run can read or write. Checks report them, too."""
    found = [item for planned in plan.nodes for item in _uris_of(planned)]
    for label, target in plan.errors.targets.items():
        found += _dlq_uris(label, target)
    return found


def _dlq_uris(label: str, target: DeadLetterTarget) -> list[Diagnostic]:
    ready = location.WRITABLE
    return [_not_ready(label, what, target.place, ready) for what in _uris(ready, target.path)]


def _uris_of(planned: PlannedNode) -> list[Diagnostic]:
    if planned.step is None:
        return []
    label = f"{planned.kind} '{planned.name}'"
    files = registry.described(planned.kind).files(planned.step)
    ready = registry.described(planned.kind).stores
    return [_not_ready(label, what, planned.span, ready) for what in _uris(ready, *files)]


def _not_ready(label: str, what: str, span: Span | None, ready: Collection[str] = ()) -> Diagnostic:
    places = " and ".join(["local and mounted file systems", *(f"{scheme}://" for scheme in sorted(ready))])
    message = f"{label}: {what} does not run yet: its files are on {places}"
    return codes.E400.at(span, message, help=NO_URIS)


def _is_unmatched(plan: Plan, planned: PlannedNode, discover: Callable[[], Mapping[str, Discovered]] | None) -> bool:
    """True if a source names its files by a pattern, and none matches, or none has to."""
    step = plan.sources.get(planned.name)
    if step is None or step.endpoint is not None or step.match.glob is None or planned.pending is not None:
        return False
    if location.is_uri(step.match.glob) or not step.match.glob.lower().endswith(_COMPRESSED):
        return False
    if discover is None:
        return step.match.on_no_match != "error"
    return not discover()[planned.name].files


def not_yet(label: str, what: str, span: Span | None) -> Diagnostic:
    """The diagnostic that says that something of a plan does not run yet."""
    return codes.E400.at(span, f"{label}: {what} does not run yet; it is checked and explained only")


def _uris(ready: Collection[str], *named: str | None) -> Iterator[str]:
    """The paths that lead to stores which are not ready; `file:` URIs are local paths."""
    for path in named:
        if path is not None and location.scheme_of(path) not in ("", "file", *ready):
            yield f"a path that is a URI (`{path}`)"


def _compressed(*named: str | None) -> Iterator[str]:
    for path in named:
        if path is not None and path.lower().endswith(_COMPRESSED):
            yield f"a compressed file (`{path}`)"


def _properties(planned: PlannedNode) -> Iterator[str]:
    if planned.step is not None:
        description = registry.described(planned.kind)
        files = tuple(description.files(planned.step))
        yield from (*description.unready(planned.step), *_compressed(*files))
