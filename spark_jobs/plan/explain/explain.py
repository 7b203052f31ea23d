"""Plans shown: as text, as versioned JSON, as a Graphviz digraph.

Nothing here reads data. `allow_outside` permits sources outside the pipeline's folder, for their sizes and the staging
plan. `look` is a function that inspects their files; without it only declared columns are shown.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics.printable import printable
from spark_jobs.nodes import registry
from spark_jobs.nodes.records.columns import CORRELATION
from spark_jobs.nodes.terms.description import PlanContext, Section
from spark_jobs.plan import pending
from spark_jobs.plan.explain import columns, correlation, pictures, retraction, storage
from spark_jobs.plan.physical import edges, inputs, physical
from spark_jobs.stores.location import Location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.explain.columns import Probe, SourceProbe
    from spark_jobs.plan.physical.edges import Edge
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import Plan, PlannedNode

#: The version of the JSON form; a change that a reader could notice raises it.
SCHEMA_VERSION = "1"

_MIB = 1024 * 1024


def show(plan: Plan, form: str, *, allow_outside: bool = False, look: Probe | None = None) -> str:
    """The plan as `text` or `json`, or as a picture: `dot`, `mermaid`, `svg` or `html`."""
    drawn = {"dot": dot, "mermaid": pictures.mermaid, "svg": pictures.svg, "html": pictures.page}.get(form)
    if drawn is not None:
        return drawn(plan)
    return {"text": text, "json": as_json}[form](plan, allow_outside=allow_outside, look=look)


def text(plan: Plan, *, allow_outside: bool = False, look: Probe | None = None) -> str:
    """The plan for people."""
    sources = inputs.discover(plan, allow_outside=allow_outside)
    materialized = physical.materialized_sources(plan, sources)
    passing = edges.edges(plan, materialized)
    blocks = [
        _titled("Resolved Outputs", _details(plan, sources, Section.OUTPUTS)),
        _nodes(plan),
        _properties(plan, sources, passing),
        _buffer_edges(plan, passing),
        _titled("Estimated Spill Volume", storage.volumes(plan, sources)),
        _titled("Jobs and Fragments", physical.lines(plan, materialized)),
        _details(plan, sources, Section.BRANCHES),
        _details(plan, sources, Section.LOOKUPS),
        _titled("Correlation", correlation.lines(plan)),
        retraction.block(plan),
        _expressions(plan),
        _schemas(plan),
        _titled("Source Columns", columns.lines(plan, columns.probe_sources(plan, sources, look))),
        _budget(plan),
        storage.spill(plan) + storage.headroom(plan, sources),
        _titled("Staging Plan", storage.staging(plan, sources)),
    ]
    return "\n".join("\n".join(map(printable, lines)) + "\n" for lines in blocks if lines)


def _titled(title: str, lines: list[str]) -> list[str]:
    return [f"=== {title} ===", "", *lines] if lines else []


def _details(plan: Plan, sources: Mapping[str, Discovered], section: Section) -> list[str]:
    """The lines of a section that only some types of nodes have."""
    lines: list[str] = []
    for planned in plan.nodes:
        details = registry.described(planned.kind).details
        if details is not None and details.section is section:
            lines += details.lines(planned.step, _around(plan, planned, sources))
    return lines


def _around(plan: Plan, planned: PlannedNode, sources: Mapping[str, Discovered]) -> PlanContext:
    readers: dict[str, tuple[str, ...]] = {}
    for consumer, edge in plan.consumers[planned.name]:
        readers[edge.port] = (*readers.get(edge.port, ()), consumer.name)
    return PlanContext(
        size=sources[planned.name].bytes if planned.name in sources else None,
        feeds={edge.qualifier: edge.node for edge in planned.inputs},
        readers=readers,
        found=sources[planned.name].about if planned.name in sources else {},
        base=plan.base_dir if isinstance(plan.base_dir, Location) else None,
    )


def _nodes(plan: Plan) -> list[str]:
    title = f"Execution Plan: {plan.name}"
    lines = [title, "=" * len(title), ""]
    if isinstance(plan.base_dir, Location):
        lines += [f"Relative paths start at {plan.base_dir}", ""]
    for number, planned in enumerate(plan.nodes):
        place = f", {_place(plan, planned.span)}" if planned.span else ""
        waits = " — does not run yet" if pending.of_node(planned) else ""
        parallel = _parallel(planned)
        lines.append(f"Node {number}: {planned.name} ({planned.kind.title()}, parallel: {parallel}{place}){waits}")
        for consumer, edge in plan.consumers[planned.name]:
            port = f"[{edge.port}] " if edge.port else ""
            lines.append(f"  -> {port}{consumer.name}")
    return lines


def _parallel(planned: PlannedNode) -> str:
    return registry.described(planned.kind).parallel(planned.step)


def _place(plan: Plan, span: Span) -> str:
    """A place by its line, with the file where that is not the pipeline's (bodies of compositions)."""
    return f"line:{span.line}" if span.file.name == str(plan.path) else f"{span.file.name}:{span.line}"


def _properties(plan: Plan, sources: Mapping[str, Discovered], passing: Sequence[Edge]) -> list[str]:
    lines: list[str] = []
    for planned in plan.nodes:
        lines.append(f"{slug(planned)}:")
        lines += [f"  {key}: {value}" for key, value in _facts(plan, planned, sources, passing).items()]
        lines += _origins(plan, planned)
        lines.append("")
    return _titled("Physical Properties", lines[:-1])


def slug(planned: PlannedNode) -> str:
    """The node's name with its type, as explain refers to it."""
    return f"{registry.described(planned.kind).slug or planned.kind}.{planned.name}"


def _facts(
    plan: Plan, planned: PlannedNode, sources: Mapping[str, Discovered], passing: Sequence[Edge]
) -> dict[str, str]:
    buffer = "materialized" if edges.is_materialized(planned.name, passing) else "streaming"
    facts = registry.described(planned.kind).facts(planned.step, _around(plan, planned, sources))
    return {"buffer": buffer, **facts, **_awaited(planned)}


def _awaited(planned: PlannedNode) -> dict[str, str]:
    """The variables that a node reads and others set, with those."""
    reads_variables = planned.step.reads_variables if planned.step is not None else ()
    waits = [f"${each.path} of {', '.join(each.setters)}" for each in reads_variables if each.setters]
    return {"waits for": "; ".join(waits)} if waits else {}


def _origins(plan: Plan, planned: PlannedNode) -> Iterator[str]:
    """The columns of a source that other keys than `schema:` declare or drop."""
    row = next(iter(planned.outputs.values()), None)
    for origin in planned.origins:
        place = f"{origin.key}, {_place(plan, origin.span)}"
        column = row.get(origin.column) if row and not origin.dropped else None
        yield f"  column {origin.column}: " + (f"{column.type}, from {place}" if column else f"dropped by {place}")


def _buffer_edges(plan: Plan, passing: Sequence[Edge]) -> list[str]:
    kinds = {planned.name: slug(planned) for planned in plan.nodes}
    lines = []
    for edge in passing:
        port = f" [{edge.port}]" if edge.port else ""
        name = f" as {edge.qualifier}" if edge.qualifier else ""
        lines.append(f"edge {kinds[edge.producer]}{port} -> {kinds[edge.consumer]}{name}:")
        lines.append(f"  buffer: {edge.passage}; {edge.reason}")
    return _titled("Buffer Edges", lines)


def _expressions(plan: Plan) -> list[str]:
    lines: list[str] = []
    for planned in plan.nodes:
        if planned.step is None:
            continue
        for expression in registry.described(planned.kind).programs(planned.step):
            if expression.title is None:
                continue
            slow = [f"{call.call} ({call.reason})" for call in edges.interpreted(expression.program)]
            slow = [expression.why] if expression.why else slow
            mark = "interpreted: " + "; ".join(slow) if slow else "native"
            title = f" {expression.title}" if expression.title else ""
            lines.append(f"{planned.kind.title()} '{planned.name}'{title} [{mark}]:")
            lines += [f"  {line.strip()}" for line in expression.program.text.splitlines() if line.strip()]
    return _titled("CXL Expressions", lines)


def _schemas(plan: Plan) -> list[str]:
    lines: list[str] = []
    for planned in plan.nodes:
        # The ports of a node that have the same row are one line.
        rows = dict.fromkeys(planned.outputs.values())
        lines += [f"{slug(planned)}: {', '.join(_columns(row)) or '<no columns>'}" for row in rows]
        if (step := plan.outputs.get(planned.name)) is not None:
            written = [f"{column.name}: {column.type}" for column in step.columns]
            written += ["undeclared columns"] if step.writes_undeclared else []
            lines.append(f"{slug(planned)} writes: {', '.join(written)}")
    return _titled("Schemas", lines)


def _columns(row: Schema) -> Iterator[str]:
    for column in row:
        if not column.is_engine or column.name in CORRELATION:
            yield f"{column.name}: {column.type}"


def _budget(plan: Plan) -> list[str]:
    threads = str(plan.threads) if plan.threads else "all cores"
    return _titled(
        "Memory Budget", [f"Memory limit: {plan.memory_limit_bytes // _MIB} MiB", f"Worker threads: {threads}"]
    )


def as_json(plan: Plan, *, allow_outside: bool = False, look: Probe | None = None) -> str:
    """The plan for programs: nodes in topological order with ports, columns and facts; edges with their passages."""
    sources = inputs.discover(plan, allow_outside=allow_outside)
    materialized = physical.materialized_sources(plan, sources)
    passing = edges.edges(plan, materialized)
    looked = columns.probe_sources(plan, sources, look)
    described = {
        "schema_version": SCHEMA_VERSION,
        "pipeline": plan.name,
        "source_hash": plan.source_hash,
        "nodes": [_node_record(plan, planned, sources, looked, passing) for planned in plan.nodes],
        "edges": [
            {
                "from": edge.producer,
                "port": edge.port,
                "to": edge.consumer,
                "qualifier": edge.qualifier,
                "passage": edge.passage.name.lower(),
                "reason": edge.reason,
            }
            for edge in passing
        ],
        "correlation": correlation.record(plan),
        "node_properties": storage.node_properties(plan, sources),
        "jobs": physical.record(plan, materialized),
        "memory_limit_bytes": plan.memory_limit_bytes,
        "threads": plan.threads,
        "storage_summary": storage.record(plan, sources),
        "warnings": [{"code": item.code.id, "message": item.message} for item in plan.warnings],
    }
    return json.dumps(described, ensure_ascii=False, indent=2) + "\n"


def _node_record(
    plan: Plan,
    planned: PlannedNode,
    sources: Mapping[str, Discovered],
    looked: Mapping[str, SourceProbe],
    passing: Sequence[Edge],
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "type": planned.kind,
        "name": planned.name,
        "depends_on": [f"{edge.node}.{edge.port}" if edge.port else edge.node for edge in planned.inputs],
        "file": planned.span.file.name if planned.span else None,
        "line": planned.span.line if planned.span else None,
        "runs": not pending.of_node(planned),
        "ports": {
            port: [{"name": column.name, "type": str(column.type)} for column in row]
            for port, row in planned.outputs.items()
        },
        "properties": _facts(plan, planned, sources, passing) if planned.step is not None else {},
    }
    if planned.origins:
        record["columns_from"] = [
            {
                "column": origin.column,
                "key": origin.key,
                "file": origin.span.file.name,
                "line": origin.span.line,
                "dropped": origin.dropped,
            }
            for origin in planned.origins
        ]
    if planned.name in looked:
        record["source_columns"] = columns.record(plan, planned.name, looked[planned.name])
    if planned.step is not None:
        record["expressions"] = [
            {
                "name": expression.label,
                "cxl": expression.program.text,
                "interpreted": [
                    {"call": one.call, "reason": one.reason} for one in edges.interpreted(expression.program)
                ],
            }
            for expression in registry.described(planned.kind).programs(planned.step)
        ]
    return record


def dot(plan: Plan) -> str:
    """The plan for Graphviz."""
    return pictures.dot(plan, {planned.name: _parallel(planned) for planned in plan.nodes})
