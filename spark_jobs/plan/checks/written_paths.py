"""Checks the paths written in a pipeline and its compositions: none leads out of the base folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.formats import registry
from spark_jobs.plan import paths
from spark_jobs.plan.options import RunOptions
from spark_jobs.plan.reading import reader, yaml_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.binder import Bindings
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.reading.document import Document

_NODE_PATHS = {
    "source": {
        "path": paths.Kind.PATTERN,
        "glob": paths.Kind.PATTERN,
        "paths": paths.Kind.PATTERN,
        "exclude": paths.Kind.PATTERN,
        "format_schema": paths.Kind.LITERAL,
    },
    "output": {"schema": paths.Kind.LITERAL},
}
_LETTERS = ("error_handling", "dlq")
_BOOKMARK = ("pipeline", "bookmark")
_LITERAL = (("pipeline", "rules_path"), ("pipeline", "log_rules"), ("pipeline", "metrics", "spool_dir"), _BOOKMARK)


@dataclass(frozen=True)
class _Written:
    """A path as it is written.

    `target` names the writer, for messages, where it is something to write, with tokens: a file, or a folder of parts.
    """

    text: str
    place: Span
    kind: paths.Kind
    target: str = ""
    is_folder: bool = False


def check(read: Document, bindings: Bindings, options: PlanOptions) -> None:
    """Note every path that is refused, and every target that names no file."""
    found = bindings.found
    values = {**dict.fromkeys(paths.TOKENS, "x"), "n": "", **bindings.tokens, **_batch(options, found)}
    for written in _all(read, bindings):
        ways, rendered = [(written.text, written.kind)], written.text
        if written.kind is paths.Kind.TEMPLATE:
            try:
                rendered = paths.render(written.text, values)
                # A path with the values of its tokens filled in has to pass the same checks.
                ways.append((rendered, paths.Kind.LITERAL))
            except paths.TemplateError as error:
                found.add(codes.E014.at(written.place, f"{written.target}: {error}"))
                continue
            if options.channel is None and paths.needs_channel(written.text):
                message = f"{written.target}: `{{channel}}` stands for the channel's name, and there is no channel"
                help_text = "give one with `--channel`; `{channel:_:}` leaves nothing where there is none"
                found.add(codes.E014.at(written.place, message, help=help_text))
                continue
        for path, kind in ways:
            problem = paths.security_problem(
                path, bindings.base_dir, allow_absolute=options.allow_absolute_paths, kind=kind
            )
            if problem:
                found.add(codes.E_SEC_001.at(written.place, problem[0], help=problem[1]))
                break
        else:
            if written.target and not written.is_folder and rendered.rpartition("/")[2] in ("", "."):
                message = f'{written.target}: path "{written.text}" names a folder, not a file'
                found.add(codes.E007.at(written.place, message, help="add the name of the file"))


def _batch(options: PlanOptions, found: Diagnostics) -> dict[str, str]:
    """The run's batch id, which stands for `{batch_id}`."""
    batch_id = options.batch_id if isinstance(options, RunOptions) else None
    if not batch_id:
        return {}
    problem = paths.value_problem(batch_id)
    if problem is None:
        return {"batch_id": batch_id}
    message = f"--batch-id cannot stand in a path: {problem}"
    found.add(codes.E_SEC_001.at(None, message, help="use letters, digits, `-`, `_` and `.`"))
    return {}


def _all(read: Document, bindings: Bindings) -> Iterator[_Written]:
    for node in bindings.expansion.nodes:
        for key, kind in _NODE_PATHS.get(node.kind, {}).items():
            yield from _texts(node.tree, ("config", key), kind)
        if node.kind == "output":
            parts, _, depth = reader.locate(node.tree, ("config", "parts"))
            is_folder = depth == 2 and isinstance(parts, yaml_tree.Scalar) and parts.value is True
            named, _, depth = reader.locate(node.tree, ("config", "type"))
            format = registry.formats().get(named.text) if depth == 2 and isinstance(named, yaml_tree.Scalar) else None
            is_folder = is_folder or (format is not None and format.is_in_folder)
            target = f'output "{node.name}"'
            for each in _texts(node.tree, ("config", "path"), paths.Kind.TEMPLATE, target):
                yield replace(each, is_folder=is_folder)
    for setting in _LITERAL:
        yield from _texts(read.tree, setting, paths.Kind.LITERAL)
    yield from _texts(read.tree, (*_LETTERS, "path"), paths.Kind.TEMPLATE, "error_handling.dlq.path")
    per_source, _, depth = reader.locate(read.tree, (*_LETTERS, "per_source"))
    if depth == 3 and isinstance(per_source, yaml_tree.Mapping):
        for name in per_source.entries:
            where = (*_LETTERS, "per_source", name, "path")
            yield from _texts(read.tree, where, paths.Kind.TEMPLATE, ".".join(where))


def _texts(
    tree: yaml_tree.Node, where: tuple[str | int, ...], kind: paths.Kind, target: str = ""
) -> Iterator[_Written]:
    value, _, depth = reader.locate(tree, where)
    if depth < len(where):
        return
    if isinstance(value, yaml_tree.Scalar) and value.value is not None:
        yield _Written(value.text, reader.value_span(tree, where), kind, target)
    elif isinstance(value, yaml_tree.Sequence):
        for index in range(len(value.items)):
            yield from _texts(tree, (*where, index), kind, target)
