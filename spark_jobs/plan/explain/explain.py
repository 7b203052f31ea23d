"""Plans shown: as text in the book's layout, as versioned JSON, as a Graphviz digraph.

Nothing here reads data. `allow_outside` says whether sources may lie outside the pipeline's folder, for their sizes and
the staging plan; `look` is who looks into their files, without which only declared columns are shown.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics.visible import visible
from spark_jobs.nodes.binding import CORRELATION
from spark_jobs.nodes.output.step import IfExists, SortField
from spark_jobs.nodes.shape import Passage
from spark_jobs.plan.explain import columns, retraction, storage
from spark_jobs.plan.physical import edges, inputs, physical
from spark_jobs.scan.network import addresses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.explain.columns import Look, Looked
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import Plan, PlannedNode

#: The version of the JSON form; a change that a reader could notice raises it.
SCHEMA_VERSION = "1"

_PARALLEL = {
    "source": "file-split",
    "transform": "record",
    "route": "record",
    "state": "record",
    "merge": "record",
    "aggregate": "key",
    "combine": "record",
    "output": "part-file",
}
_MIB = 1024 * 1024


def show(plan: Plan, form: str, *, allow_outside: bool = False, look: Look | None = None) -> str:
    """The plan as `text`, `json` or `dot`."""
    if form == "dot":
        return dot(plan)
    return {"text": text, "json": as_json}[form](plan, allow_outside=allow_outside, look=look)


def text(plan: Plan, *, allow_outside: bool = False, look: Look | None = None) -> str:
    """The plan for people."""
    sources = inputs.discover(plan, allow_outside=allow_outside)
    blocks = [
        _outputs(plan),
        _nodes(plan),
        _properties(plan, sources),
        _buffer_edges(plan),
        _titled("Estimated Spill Volume", storage.volumes(plan, sources)),
        _titled("Jobs and Regions", physical.lines(plan)),
        _routes(plan),
        _combines(plan),
        retraction.block(plan),
        _expressions(plan),
        _schemas(plan),
        _titled("Source Columns", columns.lines(plan, columns.looked(plan, sources, look))),
        _budget(plan),
        storage.spill(plan) + storage.headroom(plan, sources),
        _titled("Staging Plan", storage.staging(plan, sources)),
    ]
    return "\n".join("\n".join(map(visible, lines)) + "\n" for lines in blocks if lines)


def _titled(title: str, lines: list[str]) -> list[str]:
    return [f"=== {title} ===", "", *lines] if lines else []


def _outputs(plan: Plan) -> list[str]:
    lines = []
    for planned in plan.nodes:
        step: Any = planned.step
        if planned.kind != "output":
            continue
        split = f' (split, naming="{step.split.naming}")' if step.split else ""
        lines.append(f"  '{planned.name}' → {step.path}{split}")
        meta = str(step.write_meta).lower()
        suffix = ""
        if step.if_exists is IfExists.UNIQUE_SUFFIX:
            width = f":0{step.unique_suffix_width}" if step.unique_suffix_width else ""
            suffix = f" — collisions append `-{{n{width}}}` before extension"
        lines.append(f"      [if_exists={step.if_exists}, write_meta={meta}]{suffix}")
        if step.by_file:
            lines.append(f"      one file for each input file of '{step.by_file}'")
        if step.sort_order:
            order = ", ".join(map(_sort_field, step.sort_order))
            lines.append(f"      sorted by {order}: tasks write sorted runs, which tasks merge by ranges of the key")
    return _titled("Resolved Outputs", lines)


def _sort_field(wanted: SortField) -> str:
    direction = " desc" if wanted.descending else ""
    nulls = {"last": "", "first": " (nulls first)", "drop": " (nulls dropped)"}[wanted.null_order]
    return f"{wanted.field.name}{direction}{nulls}"


def _nodes(plan: Plan) -> list[str]:
    title = f"Execution Plan: {plan.name}"
    lines = [title, "=" * len(title), ""]
    for number, planned in enumerate(plan.nodes):
        place = f", {_place(plan, planned.span)}" if planned.span else ""
        waits = " — does not run yet" if planned.pending else ""
        lines.append(
            f"Node {number}: {planned.name} ({planned.kind.title()}, parallel: {_PARALLEL[planned.kind]}{place}){waits}"
        )
        for consumer, edge in plan.consumers[planned.name]:
            port = f"[{edge.port}] " if edge.port else ""
            lines.append(f"  -> {port}{consumer.name}")
    return lines


def _place(plan: Plan, span: Span) -> str:
    """A place by its line, with the file where that is not the pipeline's (bodies of compositions)."""
    return f"line:{span.line}" if span.file.name == str(plan.path) else f"{span.file.name}:{span.line}"


def _properties(plan: Plan, sources: Mapping[str, Discovered]) -> list[str]:
    lines: list[str] = []
    for planned in plan.nodes:
        lines.append(f"{slug(planned)}:")
        lines += [f"  {key}: {value}" for key, value in _facts(plan, planned, sources).items()]
        lines += _origins(plan, planned)
        lines.append("")
    return _titled("Physical Properties", lines[:-1])


def slug(planned: PlannedNode) -> str:
    """The node's name with its type, as explain refers to it."""
    return f"{'aggregation' if planned.kind == 'aggregate' else planned.kind}.{planned.name}"


def _combine_strategy(step: Any) -> str:
    if not step.equalities:
        return "range comparison of every pair"
    return "grace hash; both sides partitioned by key" if step.wants_shuffle else "hash build and probe"


def _facts(plan: Plan, planned: PlannedNode, sources: Mapping[str, Discovered]) -> dict[str, str]:
    step: Any = planned.step
    facts = {"buffer": "materialized" if edges.is_materialized(plan, planned.name) else "streaming"}
    match planned.kind:
        case "source":
            size = sources[planned.name].bytes if planned.name in sources else None
            facts["estimated size"] = "unknown" if size is None else f"{size} bytes"
            live = [column.name for column in step.columns if column.name in step.live]
            facts["columns read"] = f"{len(live)} of {len(step.columns)}: {', '.join(live) or '<none>'}"
            facts["on_unmapped"] = str(step.on_unmapped)
            if step.watermark_column is not None:
                delay = f", {step.watermark_delay_s:g} s behind" if step.watermark_delay_s else ""
                facts["watermark"] = f"{step.watermark_column}{delay}"
                if step.idle_timeout_s is not None:
                    facts["watermark"] += f", a silent file is passed over after {step.idle_timeout_s:g} s"
            if step.endpoint is not None:
                address = addresses.shown(step.endpoint.url, step.endpoint.secrets)
                facts["pages"] = f"{address}, at most {step.endpoint.max_pages}, fetched by the driver"
        case "aggregate":
            asked = "" if step.strategy == "auto" else f" (`strategy: {step.strategy}` asks for nothing else)"
            facts["strategy"] = f"hash; groups in order of first appearance{asked}"
            if step.time_window is not None:
                facts |= _time_window(step.time_window)
            facts["group_by"] = ", ".join(step.group_by) or "<all records>"
            facts["accumulators"] = ", ".join(call.function for call in step.program.calls) or "<none>"
        case "combine":
            facts["strategy"] = _combine_strategy(step)
        case "merge":
            facts["mode"] = "interleave" if step.interleave else "concat"
        case "output":
            facts["format"] = step.format
    return facts


def _time_window(window: Any) -> dict[str, str]:
    size = {"session": "ended by {0:g} s without a record", "hopping": "of {0:g} s, each {1:g} s"}
    words = size.get(window.kind, "of {0:g} s").format(window.size_s, window.slide_s or 0)
    return {
        "time window": f"{window.kind}, {words}",
        "allowed lateness": f"{window.allowed_lateness_s:g} s; what is later is a dead letter",
    }


def _origins(plan: Plan, planned: PlannedNode) -> Iterator[str]:
    """The columns of a source that other keys than `schema:` declare or drop."""
    row = next(iter(planned.outputs.values()), None)
    for origin in planned.origins:
        place = f"{origin.key}, {_place(plan, origin.span)}"
        column = row.get(origin.column) if row and not origin.dropped else None
        yield f"  column {origin.column}: " + (f"{column.type}, from {place}" if column else f"dropped by {place}")


def _buffer_edges(plan: Plan) -> list[str]:
    kinds = {planned.name: slug(planned) for planned in plan.nodes}
    lines = []
    for edge in edges.edges(plan):
        port = f" [{edge.port}]" if edge.port else ""
        name = f" as {edge.qualifier}" if edge.qualifier else ""
        lines.append(f"edge {kinds[edge.producer]}{port} -> {kinds[edge.consumer]}{name}:")
        lines.append(f"  buffer: {edge.passage}; {edge.reason}")
    return _titled("Buffer Edges", lines)


def _routes(plan: Plan) -> list[str]:
    lines = []
    for planned in plan.nodes:
        step: Any = planned.step
        if planned.kind != "route":
            continue
        lines.append(f"Route '{planned.name}' (mode: {'inclusive' if step.inclusive else 'exclusive'}):")
        targets: dict[str, list[str]] = {}
        for consumer, edge in plan.consumers[planned.name]:
            targets.setdefault(edge.port, []).append(f"'{consumer.name}'")
        for branch, _ in step.branches:
            lines.append(f"  Branch '{branch}' → {', '.join(targets.get(branch, ['nothing']))}")
        lines.append(f"  Default: '{step.default}' → {', '.join(targets.get(step.default, ['nothing']))}")
    return lines


def _combines(plan: Plan) -> list[str]:
    lines = []
    for planned in plan.nodes:
        step: Any = planned.step
        if planned.kind != "combine":
            continue
        feeds = {edge.qualifier: edge.node for edge in planned.inputs}
        lines.append(f"Combine '{planned.name}':")
        lines.append(f"  Strategy: {_combine_strategy(step)}")
        lines.append(f"  Driving input: {step.driver} (probe, from {feeds[step.driver]})")
        lines += [f"  Build input: {build} (build, from {feeds[build]})" for build in step.builds]
        residual = "yes" if step.residual is not None else "no"
        lines.append(f"  Predicate: equalities={len(step.equalities)}, residual={residual}")
        if step.equalities:
            lines.append("  Equalities:")
            lines += [f"    - {_side(equality.driver)} == {_side(equality.build)}" for equality in step.equalities]
        lines.append(f"  Match: {step.match}")
        lines.append(f"  On miss: {step.on_miss}")
    return lines


def _side(program: Any) -> str:
    start, end = program.statements[-1].place
    return str(program.text[start:end])


def _expressions(plan: Plan) -> list[str]:
    lines: list[str] = []
    for planned in plan.nodes:
        if planned.step is None:
            continue
        for label, program in edges.programs(planned):
            if label in ("after", "key"):
                continue
            slow = edges.interpreted(program)
            mark = "native" if not slow else "interpreted: " + "; ".join(f"{s.call} ({s.reason})" for s in slow)
            name = f" {label}" if label not in ("cxl", "before") else ""
            lines.append(f"{planned.kind.title()} '{planned.name}'{name} [{mark}]:")
            lines += [f"  {line.strip()}" for line in program.text.splitlines() if line.strip()]
    return _titled("CXL Expressions", lines)


def _schemas(plan: Plan) -> list[str]:
    lines: list[str] = []
    for planned in plan.nodes:
        ports = planned.outputs if planned.kind != "route" else dict(list(planned.outputs.items())[:1])
        lines += [f"{slug(planned)}: {', '.join(_columns(row)) or '<no columns>'}" for row in ports.values()]
        if planned.kind == "output":
            step: Any = planned.step
            written = [f"{column.name}: {column.type}" for column in step.columns]
            lines.append(
                f"{slug(planned)} writes: {', '.join([*written, *(['undeclared columns'] if step.widened else [])])}"
            )
    return _titled("Schemas", lines)


def _columns(row: Schema) -> Iterator[str]:
    for column in row:
        if not column.is_engine or column.name.startswith(CORRELATION):
            yield f"{column.name}: {column.type}"


def _budget(plan: Plan) -> list[str]:
    threads = str(plan.threads) if plan.threads else "all cores"
    return _titled(
        "Memory Budget", [f"Memory limit: {plan.memory_limit_bytes // _MIB} MiB", f"Worker threads: {threads}"]
    )


def as_json(plan: Plan, *, allow_outside: bool = False, look: Look | None = None) -> str:
    """The plan for programs: nodes in topological order with ports, columns and facts; edges with their passages."""
    sources = inputs.discover(plan, allow_outside=allow_outside)
    passing = edges.edges(plan)
    looked = columns.looked(plan, sources, look)
    described = {
        "schema_version": SCHEMA_VERSION,
        "pipeline": plan.name,
        "source_hash": plan.source_hash,
        "nodes": [_node_record(plan, planned, sources, looked) for planned in plan.nodes],
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
        "node_properties": storage.node_properties(plan, sources),
        "jobs": physical.record(plan),
        "memory_limit_bytes": plan.memory_limit_bytes,
        "threads": plan.threads,
        "storage_summary": storage.record(plan, sources),
        "warnings": [{"code": item.code.id, "message": item.message} for item in plan.warnings],
    }
    return json.dumps(described, ensure_ascii=False, indent=2) + "\n"


def _node_record(
    plan: Plan, planned: PlannedNode, sources: Mapping[str, Discovered], looked: Mapping[str, Looked]
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "type": planned.kind,
        "name": planned.name,
        "depends_on": [f"{edge.node}.{edge.port}" if edge.port else edge.node for edge in planned.inputs],
        "file": planned.span.file.name if planned.span else None,
        "line": planned.span.line if planned.span else None,
        "runs": planned.pending is None,
        "ports": {
            port: [{"name": column.name, "type": str(column.type)} for column in row]
            for port, row in planned.outputs.items()
        },
        "properties": _facts(plan, planned, sources) if planned.step is not None else {},
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
                "name": label,
                "cxl": program.text,
                "interpreted": [{"call": one.call, "reason": one.reason} for one in edges.interpreted(program)],
            }
            for label, program in edges.programs(planned)
        ]
    return record


def dot(plan: Plan) -> str:
    """The plan for Graphviz."""
    numbers = {planned.name: number for number, planned in enumerate(plan.nodes)}
    lines = ["digraph {"]
    for planned in plan.nodes:
        label = _quoted(f"[{planned.kind}] {planned.name}\nparallel: {_PARALLEL[planned.kind]}")
        lines.append(f"    {numbers[planned.name]} [ shape=box label={label} ]")
    for edge in edges.edges(plan):
        label = edge.port or edge.qualifier or "data"
        style = "" if edge.passage is Passage.PIPELINED else " style=bold"
        lines.append(f"    {numbers[edge.producer]} -> {numbers[edge.consumer]} [ label={_quoted(label)}{style} ]")
    return "\n".join([*map(visible, lines), "}"]) + "\n"


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
