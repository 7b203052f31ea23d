"""What must not fall on each other: writers on one path, a body's columns on those that pass through."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.plan import reader

if TYPE_CHECKING:
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.binder import Bindings
    from spark_jobs.plan.document import Document, NodeSource
    from spark_jobs.plan.plan import ErrorHandling, PlannedNode


def check_targets(
    nodes: tuple[PlannedNode, ...],
    errors: ErrorHandling,
    read: Document,
    written: list[NodeSource],
    found: Diagnostics,
) -> None:
    """No two outputs may have one path (E322), no two dead-letter files either (E318)."""
    taken: dict[str, str] = {}
    by_name = {node.name: node for node in written}
    for planned in nodes:
        template = getattr(planned.step, "path", None)
        if planned.kind != "output" or template is None:
            continue
        path = os.path.normpath(template)
        if path in taken:
            place = reader.value_span(by_name[planned.name].tree, ("config", "path"))
            found.add(codes.E322.at(place, f"output '{planned.name}' path \"{template}\" collides with {taken[path]}"))
        taken.setdefault(path, f"output '{planned.name}'")
    block = ("error_handling", "dlq")
    targets: list[tuple[tuple[str, ...], str | None]]
    targets = [((*block, "path"), errors.dead_letters.path)]
    targets += [((*block, "per_source", name, "path"), target.path) for name, target in errors.per_source.items()]
    letters: dict[str, str] = {}
    for where, template in targets:
        if template is None:
            continue
        path, label = os.path.normpath(template), ".".join(map(str, where))
        place = reader.value_span(read.tree, where)
        if path in taken:
            found.add(codes.E322.at(place, f'{label} "{template}" collides with {taken[path]}'))
        if path in letters:
            found.add(codes.E318.at(place, f'{label} "{template}" collides with {letters[path]}'))
        letters.setdefault(path, label)


def check_shadows(bindings: Bindings) -> None:
    """W101: a body's transform emits a column that passes through the port undeclared; the body's value wins."""
    passing = _passing(bindings)
    for name, node in bindings.graph.nodes.items():
        bound = bindings.bound.get(name)
        program = getattr(bound.step, "program", None) if bound else None
        if node.kind != "transform" or program is None:
            continue
        for column, _ in program.emits:
            if column in passing.get("/".join(node.instance), ()):
                message = f"composition body node '{name}' emits '{column}', which also passes through from upstream"
                help_text = "the body's value wins; declare the column in the port's schema to say so"
                bindings.found.add(codes.W101.at(node.span, message, help=help_text))


def _passing(bindings: Bindings) -> dict[str, set[str]]:
    """The columns that pass through each call: those of its input rows that its ports do not declare."""
    passing: dict[str, set[str]] = {}
    for name, node in bindings.graph.nodes.items():
        feeds = bindings.feeds.get(name, ())
        for reference, feed in zip(bindings.graph.inputs[node.name], feeds, strict=False):
            for key in reference.needs:
                need = bindings.expansion.needs[key]
                declared = {column.name for column in need.columns}
                columns = {column.name for column in feed.flow.schema.user_columns} - declared
                passing.setdefault(need.call, set()).update(columns)
    return passing
