"""Column lineage: from a column back through renames, expressions and groups to the columns of sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.diagnostics.printable import printable
from spark_jobs.nodes import registry
from spark_jobs.nodes.records.columns import CORRELATION, UNDECLARED_MAP, Fate, family, is_engine, value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.plan.plan import Plan, PlannedNode


@dataclass(frozen=True)
class Derivation:
    """A column of a node: how it comes about there, and the columns it is made of, nearest first.

    `declared` says where a source declares the column when that is not `schema:`, or that it does not.
    """

    node: str
    column: str
    how: str
    parents: tuple[Derivation, ...] = ()
    declared: str = ""

    def sources(self) -> list[tuple[str, str]]:
        """The source columns at the far end, each once."""
        if not self.parents:
            return [(self.node, self.column)] if self.how == "read" else []
        return list(dict.fromkeys(pair for parent in self.parents for pair in parent.sources()))


def columns(plan: Plan, node: str) -> list[str]:
    """The columns of a node's records; of an output, the columns that it writes."""
    if node in plan.outputs:
        return [column.name for column in plan.outputs[node].columns]
    rows = list(plan.by_name[node].outputs.values())
    return [column.name for column in rows[0].user_columns] if rows else []


def of_column(plan: Plan, node: str, column: str) -> Derivation | None:
    """The derivation of a node's column, None when the node has no such column."""
    if column not in columns(plan, node):
        return None
    return _trace(plan, node, column, {})


def of_outputs(plan: Plan) -> list[Derivation]:
    """The derivations of all columns of all outputs."""
    known: dict[tuple[str, str], Derivation] = {}
    return [_trace(plan, name, column, known) for name in plan.outputs for column in columns(plan, name)]


def _trace(plan: Plan, node: str, column: str, known: dict[tuple[str, str], Derivation]) -> Derivation:
    if (node, column) not in known:
        known[node, column] = _made(plan, plan.by_name[node], column, known)
    return known[node, column]


def _made(plan: Plan, planned: PlannedNode, column: str, known: dict[tuple[str, str], Derivation]) -> Derivation:
    made = registry.described(planned.kind).trace(planned.step, column)
    found = next((one for one in planned.origins if one.column == column), None)
    if planned.is_source and column in CORRELATION:
        # The key is the field as it was read, whatever becomes of the field.
        column = CORRELATION.key(column)
    declared = f"this comes from {found.key} at {found.span}" if found else ""
    if planned.is_source and column not in planned.outputs[""]:
        declared = "undeclared"
    parents = [
        _trace(plan, *where, known) for number, name in made.reads for where in _givers(plan, planned, number, name)
    ]
    return Derivation(planned.name, column, made.how, tuple(dict.fromkeys(parents)), declared)


def _givers(plan: Plan, planned: PlannedNode, number: int, name: str) -> Iterator[tuple[str, str]]:
    """The nodes that provide a column of an input, or a `$…` value, and its name there."""
    awaited = {value(each.path): each for each in planned.step.reads_variables} if planned.step is not None else {}
    if name in awaited:
        yield from ((setter, value(awaited[name].declared)) for setter in awaited[name].setters)
    elif _has(plan, planned, planned.inputs[number].node, name):
        yield planned.inputs[number].node, name


def _has(plan: Plan, reader: PlannedNode, node: str, column: str) -> bool:
    """True if a node's records have a column, or may have it as an undeclared one, when they come to a reader."""
    rows = plan.by_name[node].outputs.values()
    if is_engine(column):
        # Values that are the same for all records, such as `$vars.limit`, are in no row.
        is_there = any(column in row for row in rows)
        return is_there and getattr(family(column).fates, reader.kind, Fate.KEPT) is not Fate.GONE
    return any(column in row or UNDECLARED_MAP in row for row in rows)


def text(path: str, origin: Derivation) -> str:
    """An origin as an indented tree."""
    lines = [f"Field: {path}", ""]
    stack = [(origin, 1)]
    while stack:
        one, depth = stack.pop()
        declared = f"; {one.declared}" if one.declared else ""
        lines.append(f"{'  ' * depth}{one.node}.{one.column} ({one.how}{declared})")
        stack.extend((parent, depth + 1) for parent in reversed(one.parents))
    return "\n".join(map(printable, lines)) + "\n"
