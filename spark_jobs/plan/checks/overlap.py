"""Checks for collisions: writers on one path, or columns of a body with columns that pass through."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.disk import small_files
from spark_jobs.nodes.output.step import SIDECAR
from spark_jobs.plan import paths
from spark_jobs.plan import plan as plans
from spark_jobs.plan.reading import reader
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.binder import Bindings
    from spark_jobs.plan.plan import ErrorHandling, PlannedNode
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.stores.location import FilePath


@dataclass(frozen=True)
class _Claim:
    """A file that the run writes: its path behind all links, how it is written and where, and who writes it.

    With `has_parts` it is a folder whose files are all the output's own.
    """

    path: str
    written: str
    owner: str
    place: Span | None
    is_dlq: bool = False
    has_parts: bool = False


def check_targets(
    nodes: tuple[PlannedNode, ...],
    errors: ErrorHandling,
    written: list[NodeSource],
    base_dir: FilePath,
    found: Diagnostics,
) -> None:
    """No two outputs may have one path (E322), no two dead-letter files either (E318).

    Nor may one need a folder where another has its file. Where a file system does not tell letter case apart, paths
    that differ in it alone are one.
    """
    files: dict[str, _Claim] = {}
    folders: dict[str, _Claim] = {}
    for claim in (*_outputs(nodes, written, base_dir), *_dlq_files(errors, base_dir)):
        key = claim.path.casefold() if _ignores_case(claim.path) else claim.path
        above = _parents(key)
        around = folders.get(key) or next((files[folder] for folder in above if folder in files), None)
        other = files.get(key) or around
        if other is not None:
            code = codes.E318 if claim.is_dlq and other.is_dlq else codes.E322
            why = "; a file cannot be a folder too" if other is around else ""
            if other is around and (other.has_parts or claim.has_parts):
                why = "; readers of a folder of parts would read every file in it"
            if other is not around and other.path != claim.path:
                why = "; on this file system, which ignores letter case, they are the same file"
            message = f'{claim.owner} "{claim.written}" collides with {other.owner} "{other.written}"{why}'
            found.add(code.at(claim.place, message, help="give each of them another path"))
        files.setdefault(key, claim)
        for folder in above:
            folders.setdefault(folder, claim)


def _ignores_case(path: str) -> bool:
    """True if a path leads to the same file in other letters, as far as it exists."""
    while (above := os.path.dirname(path)) != path:
        other = os.path.join(above, os.path.basename(path).swapcase())
        if other != path and os.path.lexists(path):
            return os.path.lexists(other) and os.path.samestat(os.lstat(path), os.lstat(other))
        path = above
    return False


def _outputs(nodes: tuple[PlannedNode, ...], written: list[NodeSource], base_dir: FilePath) -> Iterator[_Claim]:
    by_name = {node.name: node for node in written}
    for name, step in plans.outputs(nodes).items():
        place = reader.value_span(by_name[name].tree, ("config", "path"))
        owner = f"output '{name}' path"
        if not step.has_path:
            where = step.place
            yield _Claim(f"table {where.casefold()}", where, f"the table of output '{name}'", place)
            continue
        yield _Claim(_real(step.path, base_dir), step.path, owner, place, has_parts=step.parts)
        if step.write_meta:
            sidecar = step.path + SIDECAR
            yield _Claim(_real(sidecar, base_dir), sidecar, f"the `write_meta` file of {owner}", place)


def _dlq_files(errors: ErrorHandling, base_dir: FilePath) -> Iterator[_Claim]:
    for label, target in errors.targets.items():
        if target.path is not None:
            yield _Claim(_real(target.path, base_dir), target.path, label, target.place, is_dlq=True)


def _real(template: str, base_dir: FilePath) -> str:
    path = paths.resolve(template, base_dir)
    if not paths.is_remote(path):
        return small_files.real_path(path)
    is_known = location.scheme_of(path) in location.READABLE and location.problem(path) is None
    return str(location.parse(path)).rstrip("/") if is_known else path


def _parents(path: str) -> list[str]:
    """All folders that a path leads through."""
    parts = path.split(os.sep)
    return [os.sep.join(parts[:end]) for end in range(2, len(parts))]


def check_shadows(bindings: Bindings) -> None:
    """W101: a body's transform emits a column that passes through the port undeclared; the body's value wins."""
    passing = _passing(bindings)
    for name, node in bindings.graph.nodes.items():
        bound = bindings.bound.get(name)
        for column in bound.step.column_properties.added if bound and bound.step else ():
            if column in passing.get("/".join(node.instance), ()):
                message = f"composition body node '{name}' emits '{column}', which also passes through from upstream"
                help_text = "the body's value wins; declare the column in the port's schema to say so"
                bindings.found.add(codes.W101.at(node.span, message, help=help_text))


def _passing(bindings: Bindings) -> dict[str, set[str]]:
    """The columns that pass through each call: input columns that its ports do not declare."""
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
