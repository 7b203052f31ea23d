"""Format schemas in files of their own: `format_schema: layouts/orders.schema.yaml` instead of a mapping in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.source import Span
from spark_jobs.nodes import formats
from spark_jobs.plan import paths
from spark_jobs.plan.reading import document, reader, yaml_tree
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.stores.location import FilePath

#: The keys by which a format schema is known.
_MARKS = ("fields", "records", "defs")


def load(
    nodes: list[NodeSource],
    base_dir: FilePath,
    variables: Mapping[str, str],
    found: Diagnostics,
    *,
    allow_absolute: bool,
) -> None:
    """Replace paths of format schemas by the layouts in their files; problems of a layout are reported."""
    for node in nodes:
        for path, part in list(node.parts.items()):
            if isinstance(part, str):
                del node.parts[path]
                place = reader.value_span(node.tree, ("config", *path))
                refused = paths.security_problem(part, base_dir, allow_absolute=allow_absolute)
                problems = Diagnostics()
                layout = None if refused else _read(part, base_dir, variables, problems)
                for problem in problems:
                    message = f"format schema `{part}`: {problem.message}"
                    found.add(problem.code.at(problem.span or place, message, help=problem.help))
                if layout is not None:
                    node.parts[path] = layout


def _read(
    written: str, base_dir: FilePath, variables: Mapping[str, str], problems: Diagnostics
) -> formats.Layout | None:
    path = paths.placed(written, base_dir)
    named = str(path) if isinstance(path, location.Location) else written
    _, tree = document.open_tree(path, named, variables, problems, base_dir=base_dir, marks=_MARKS)
    if tree is None:
        return None
    if not isinstance(tree, yaml_tree.Mapping):
        problems.add(codes.E007.at(reader.head(tree.span), "a format schema is a mapping with `fields:`"))
        return None
    return reader.read(formats.Layout, tree, problems, place=Span(tree.span.file, 0, 0))
