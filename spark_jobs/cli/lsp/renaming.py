"""Renaming: every place where a node or a column is written, or why there is no telling.

A column is followed downstream from where it is made, until a node makes another one of that name. The new text is
planned before it is offered: a place that was overlooked shows as an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.lsp.analysis import Edit, declared, programs_of
from spark_jobs.cxl import tree_walk
from spark_jobs.cxl.syntax import ast, parser
from spark_jobs.cxl.syntax.names import RESERVED
from spark_jobs.plan.reading.yaml_tree import Mapping, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spark_jobs.cli.lsp.analysis import Analysis, Program
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.plan.reading.yaml_tree import Node

#: Keys below which the values are programs, or have nothing to do with columns.
_NO_COLUMNS = frozenset(
    (
        "cxl",
        "where",
        "conditions",
        "validations",
        "path",
        "paths",
        "glob",
        "regex",
        "type",
        "format",
        "options",
        "match",
    )
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class NotRenamed(Exception):
    """A name that cannot be changed; the message says why."""


@dataclass(frozen=True)
class Named:
    """A name and its places.

    Args:
        name: the name.
        is_column: whether a column has it, and not a node.
        spans: where it is written, each with nothing but the name.
    """

    name: str
    is_column: bool
    spans: tuple[tuple[int, int], ...]


def named_at(text: Analysis, place: int) -> Named | None:
    """What is named at a place, with all its places; None where nothing that can be renamed is there."""
    if text.program_at(place) is None and (found := text.name_places(place)) is not None:
        return Named(found[0], False, tuple((edit.start, edit.end) for edit in found[1]))
    start, end = text.word_at(place)
    word = text.text[start:end]
    maker = _maker(text, place, word) if word else None
    if maker is None:
        return None
    spans = sorted(set(_column_places(text, maker, word)))
    return Named(word, True, tuple(spans)) if (start, end) in spans else None


def renamed(text: Analysis, named: Named, new: str) -> list[Edit]:
    """The edits that give a node or a column another name.

    Raises:
        NotRenamed: the name is no name or is taken, or the pipeline would have errors.
    """
    if not _NAME.fullmatch(new):
        raise NotRenamed(f"'{new}' is no name: write letters, digits and '_'")
    if named.is_column and new in RESERVED:
        raise NotRenamed(f"'{new}' is a word of CXL")
    if not named.is_column and any(node.name == new for node in text.nodes):
        raise NotRenamed(f"there is a node '{new}' already")
    if named.is_column and (taken := [node.name for node in text.nodes if new in text.given(node)]):
        raise NotRenamed(f"node '{taken[0]}' has a column '{new}' already")
    edits = [Edit(start, end, new) for start, end in named.spans]
    before = {str(one.code) for one in text.diagnostics if one.is_error}
    after = [one for one in text.changed(edits).diagnostics if one.is_error and str(one.code) not in before]
    if after:
        raise NotRenamed(f"'{named.name}' cannot be renamed everywhere: {after[0].message}")
    return edits


def _maker(text: Analysis, place: int, word: str) -> NodeSource | None:
    """The node that makes the column at a place."""
    made = text.definition(place) or _own_declaration(text, place, word)
    if made is None:
        return None
    node = text.node_at(made.start)
    program = text.program_at(made.start)
    if node is None or (program is not None and not _is_emitted(program, word)):
        return None
    return node if word in text.given(node) else None


def _own_declaration(text: Analysis, place: int, word: str) -> Span | None:
    node = text.node_at(place)
    span = declared(node, word) if node is not None else None
    return span if span is not None and span.start <= place <= span.end else None


def _is_emitted(program: Program, name: str) -> bool:
    with tree_walk.room():
        statements = parser.parse(program.text.value).tree.statements
    return any(isinstance(one, ast.Emit) and one.name == name for one in statements)


def _column_places(text: Analysis, maker: NodeSource, name: str) -> Iterator[tuple[int, int]]:
    """Where a column is written: where it is made, and where it is read downstream."""
    span = declared(maker, name)
    if span is not None:
        yield from _inside(text, span, name)
    for program in programs_of(maker):
        yield from _uses(program, name, None, own=True)
    reached = {maker.name}
    # Nodes are written in any order: go on until no further one is reached.
    while further := {node.name for node in text.nodes if _reads_from(node, reached) and _hands_on(text, node, name)}:
        if further <= reached:
            break
        reached |= further
    readers = [node for node in text.nodes if _reads_from(node, reached)]
    for node in readers:
        qualifiers = {reference.qualifier for reference in node.inputs if reference.node in reached}
        for program in programs_of(node):
            for qualifier in qualifiers:
                yield from _uses(program, name, qualifier or None, own=False)
        for scalar in _values(node.tree.get("config"), ()):
            if scalar.text == name:
                yield from _inside(text, scalar.span, name)


def _reads_from(node: NodeSource, nodes: Collection[str]) -> bool:
    return any(reference.node in nodes for reference in node.inputs)


def _hands_on(text: Analysis, node: NodeSource, name: str) -> bool:
    """Whether a node hands a column on: it does not leave it out, and makes no other one of its name."""
    return name in text.given(node) and not any(_is_emitted(program, name) for program in programs_of(node))


def _inside(text: Analysis, span: Span, name: str) -> Iterator[tuple[int, int]]:
    start = text.text.find(name, span.start, span.end)
    if start >= 0:
        yield start, start + len(name)


def _uses(program: Program, name: str, qualifier: str | None, *, own: bool) -> Iterator[tuple[int, int]]:
    """Where a program reads a column, up to the statement that makes another one; or, `own`, its column from there on.

    With a qualifier the column is a member of it.
    """
    with tree_walk.room():
        statements = parser.parse(program.text.value).tree.statements
    is_made = False
    for one in statements:
        is_making = isinstance(one, ast.Emit | ast.Let) and one.name == name
        if is_made is own or (qualifier is not None and not own):
            for start, end in _reads(one, name, qualifier):
                span = program.text.span(start, end)
                yield span.start, span.end
        if is_making:
            is_made = True
            if own and isinstance(one, ast.Emit):
                span = program.text.span(*one.name_place)
                yield span.start, span.end


def _reads(tree: Any, name: str, qualifier: str | None) -> Iterator[tuple[int, int]]:
    stack: list[Any] = [tree]
    while stack:
        one = stack.pop()
        match one:
            case ast.Name(name=read) if qualifier is None and read == name:
                yield one.place
            case ast.Member(base=ast.Name(name=base), name=read) if base == qualifier and read == name:
                yield one.name_place
        if isinstance(one, tuple):
            stack += one
        elif is_dataclass(one):
            stack += [getattr(one, each.name) for each in fields(one)]


def _values(tree: Node | None, path: tuple[str, ...]) -> Iterator[Scalar]:
    """The values in a configuration that may be names of columns."""
    if isinstance(tree, Scalar):
        yield tree
    elif isinstance(tree, Sequence):
        for item in tree.items:
            yield from _values(item, path)
    elif isinstance(tree, Mapping):
        for key, entry in tree.entries.items():
            if path or key not in _NO_COLUMNS:
                yield from _values(entry.value, (*path, key))
