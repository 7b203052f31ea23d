"""Where columns come from: back through renames, expressions and groups to the columns of sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import typed
from spark_jobs.diagnostics.visible import visible
from spark_jobs.nodes import tree
from spark_jobs.nodes.binding import WIDENED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.plan.plan import Plan, PlannedNode


@dataclass(frozen=True)
class Origin:
    """A column of a node: how it comes about there, and the columns it is made of, nearest first.

    `declared` says where a source declares the column when that is not `schema:`, or that it does not.
    """

    node: str
    column: str
    how: str
    parents: tuple[Origin, ...] = ()
    declared: str = ""

    def sources(self) -> list[tuple[str, str]]:
        """The source columns at the far end, each once."""
        if not self.parents:
            return [(self.node, self.column)] if self.how == "read" else []
        return list(dict.fromkeys(pair for parent in self.parents for pair in parent.sources()))


def columns(plan: Plan, node: str) -> list[str]:
    """The columns of a node: what it gives, or what an output writes."""
    planned = plan.by_name[node]
    step: Any = planned.step
    if planned.kind == "output":
        return [column.name for column in step.columns]
    rows = list(planned.outputs.values())
    return [column.name for column in rows[0].user_columns] if rows else []


def of_column(plan: Plan, node: str, column: str) -> Origin | None:
    """The origin of a node's column, None when the node has no such column."""
    if column not in columns(plan, node):
        return None
    return _trace(plan, node, column, {})


def of_outputs(plan: Plan) -> list[Origin]:
    """The origins of all columns of all outputs."""
    known: dict[tuple[str, str], Origin] = {}
    return [
        _trace(plan, planned.name, column, known)
        for planned in plan.nodes
        if planned.kind == "output"
        for column in columns(plan, planned.name)
    ]


def _trace(plan: Plan, node: str, column: str, known: dict[tuple[str, str], Origin]) -> Origin:
    if (node, column) not in known:
        known[node, column] = _made(plan, plan.by_name[node], column, known)
    return known[node, column]


def _made(plan: Plan, planned: PlannedNode, column: str, known: dict[tuple[str, str], Origin]) -> Origin:
    step: Any = planned.step
    how, reads = "passed on", [(edge.node, column) for edge in planned.inputs[:1]]
    match planned.kind:
        case "source":
            found = next((one for one in planned.origins if one.column == column), None)
            declared = f"this comes from {found.key} at {found.span}" if found else ""
            if column not in planned.outputs[""]:
                declared = "undeclared"
            return Origin(planned.name, column, "read", declared=declared)
        case "output":
            written = next(one for one in step.columns if one.name == column)
            how = "written" if written.source == column else f"written, renamed from {written.source}"
            reads = [(planned.inputs[0].node, written.source)]
        case "merge":
            how, reads = "merged", [(edge.node, column) for edge in planned.inputs]
        case "transform" if column in dict(step.program.emits):
            how, reads = "emitted", _reads(step.program, column, planned)
        case "aggregate" if column in dict(step.program.after.emits):
            how, reads = "aggregated", list(_aggregated(step.program, column, planned))
        case "aggregate":
            how = "grouped by"
        case "combine":
            how, reads = "combined", _combined(step, column, planned)
    parents = tuple(_trace(plan, producer, name, known) for producer, name in reads if _has(plan, producer, name))
    return Origin(planned.name, column, how, parents)


def _has(plan: Plan, node: str, column: str) -> bool:
    """Whether a node's records have a column, or may have it as an undeclared one."""
    return any(column in row or WIDENED in row for row in plan.by_name[node].outputs.values())


def _values(program: typed.Program) -> Iterator[tuple[int | None, str | None, typed.Expression]]:
    """All expressions that are given to slots or names, loops' sources included."""
    for part in tree.parts(program.statements):
        match part:
            case typed.Emit(slot=slot, name=name, value=value):
                yield slot, name, value
            case typed.Let(slot=slot, value=value):
                yield slot, None, value
            case typed.Each(slot=slot, source=value):
                yield slot, None, value


def _columns_behind(program: typed.Program, name: str) -> list[str]:
    """The input columns that an emitted field is computed from, through lets and earlier emits."""
    given = list(_values(program))
    slots: dict[int, list[typed.Expression]] = {}
    for slot, _, value in given:
        if slot is not None:
            slots.setdefault(slot, []).append(value)
    found: dict[str, None] = {}
    seen: set[int] = set()
    stack = [value for _, emitted, value in given if emitted == name]
    while stack:
        for part in tree.parts(stack.pop()):
            if isinstance(part, typed.Column):
                found[part.name] = None
            elif isinstance(part, typed.Local) and part.slot not in seen:
                seen.add(part.slot)
                stack.extend(slots.get(part.slot, ()))
    return list(found)


def _reads(program: typed.Program, column: str, planned: PlannedNode) -> list[tuple[str, str]]:
    return [(planned.inputs[0].node, name) for name in _columns_behind(program, column)]


def _aggregated(program: typed.AggregateProgram, column: str, planned: PlannedNode) -> Iterator[tuple[str, str]]:
    calls = {call.result: call for call in program.calls}
    for name in _columns_behind(program.after, column):
        if name not in calls:
            yield planned.inputs[0].node, name
            continue
        for argument in calls[name].arguments:
            behind = _columns_behind(program.before, argument) if argument.startswith("$") else [argument]
            yield from ((planned.inputs[0].node, one) for one in behind)


def _combined(step: Any, column: str, planned: PlannedNode) -> list[tuple[str, str]]:
    feeds = {edge.qualifier: edge.node for edge in planned.inputs}
    if step.body is None:
        if column in feeds and column != step.driver:
            row = dict(step.schemas)[column]
            return [(feeds[column], name) for name in row.names]
        return [(feeds[step.driver], column)]
    if column not in dict(step.body.emits):
        return [(feeds[step.driver], column)]
    behind = _columns_behind(step.body, column)
    return [(feeds[q], name) for q, _, name in (one.partition(".") for one in behind) if q in feeds]


def text(path: str, origin: Origin) -> str:
    """An origin as an indented tree."""
    lines = [f"Field: {path}", ""]
    stack = [(origin, 1)]
    while stack:
        one, depth = stack.pop()
        declared = f"; {one.declared}" if one.declared else ""
        lines.append(f"{'  ' * depth}{one.node}.{one.column} ({one.how}{declared})")
        stack.extend((parent, depth + 1) for parent in reversed(one.parents))
    return "\n".join(map(visible, lines)) + "\n"
