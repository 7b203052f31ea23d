"""Renaming: finds every place where a node or a column is named, or the reason why that is impossible.

A column keeps its identity from the node that creates it to the end of its records: a transform that emits it again
changes its values, and merged inputs share it. It ends at nodes that create new records, such as aggregates. The new
text is planned before it is offered: an overlooked place shows as an error, and a name that is already taken as a
program of another shape.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.lsp.analysis import Edit, declared, programs_of, references_of, statements_of
from spark_jobs.cxl.syntax import ast
from spark_jobs.cxl.syntax.names import RESERVED
from spark_jobs.nodes.rules import model as rules
from spark_jobs.plan.reading.yaml_tree import Mapping, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_jobs.cli.lsp.analysis import Analysis, Program
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.plan import Plan
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.plan.reading.yaml_tree import Node

#: The keys of rules that name columns of their node.
_OF_RULES = (
    ("validations", "unique"),
    ("validations", "references", "columns"),
    *(("validations", kind, "column") for kind in rules.MEASURED),
)
#: The keys that name columns of a node's input, as paths; lists on the way are passed through.
_OF_INPUT = (
    ("group_by",),
    ("analytic_window", "group_by"),
    ("analytic_window", "sort_by"),
    ("analytic_window", "sort_by", "field"),
    ("analytic_window", "on"),
    ("exclude",),
    ("sort_order",),
    ("sort_order", "field"),
    ("split", "group_key"),
    ("propagate_ck", "named"),
    *_OF_RULES,
)
#: The keys that name output columns of a node.
_OF_NODE = (
    ("correlation_key",),
    ("watermark", "column"),
    ("incremental", "column"),
    ("array_paths", "path"),
    ("validations", "field"),
    ("log", "fields"),
)
_OF_SOURCE = (("sort_order",), ("sort_order", "field"), *_OF_RULES)
#: Parts of programs that say where they are written; what follows from the statements comes in any order.
_UNCOMPARED = frozenset(("place", "places", "text", "columns", "system"))
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
    """The name at a place, with all its places; None if nothing there can be renamed."""
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
    if (plan := text.plan) is None:
        first = next(one for one in text.diagnostics if one.is_error)
        raise NotRenamed(f"the pipeline has an error, so not every place of '{named.name}' is known: {first.message}")
    edits = [Edit(start, end, new) for start, end in named.spans]
    changed = text.changed(edits)
    after = [one for one in changed.diagnostics if one.is_error]
    if after or changed.plan is None:
        raise NotRenamed(f"'{named.name}' cannot be renamed everywhere: {after[0].message}")
    if (node := _changed(plan, changed.plan, named.name, new)) is not None:
        raise NotRenamed(f"'{new}' would mean something else in node '{node}'")
    return edits


def _changed(old: Plan, plan: Plan, name: str, new: str) -> str | None:
    """The first node whose columns or programs are others under the new name."""
    either = re.compile(rf"\b(?:{re.escape(name)}|{re.escape(new)})\b")

    def said(text: str) -> str:
        return either.sub("\0", text)

    for before, after in zip(old.nodes, plan.nodes, strict=True):
        if [[said(column.name) for column in row] for row in before.outputs.values()] != [
            [said(column.name) for column in row] for row in after.outputs.values()
        ] or [*_shape(before.step, said)] != [*_shape(after.step, said)]:
            return after.name
    return None


def _shape(step: Any, said: Callable[[str], str]) -> Iterator[object]:
    """The structure of a step's programs without texts and places, with names as `said` translates them."""
    stack: list[Any] = [step]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield said(one)
        elif isinstance(one, tuple | list):
            stack += one
        elif is_dataclass(one):
            yield type(one)
            stack += [getattr(one, each.name) for each in fields(one) if each.name not in _UNCOMPARED]
        elif isinstance(one, int | None):
            yield one


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
    return any(whose is _Whose.NODE for whose, _ in _places(statements_of(program), name, None))


def _column_places(text: Analysis, maker: NodeSource, name: str) -> Iterator[tuple[int, int]]:
    """The places of a column's name: where it is created or overwritten, and where it is read."""
    same = _same(text, maker, name)
    for node in text.nodes:
        gives = node.name in same
        read = [reference.qualifier for reference in node.inputs if reference.node in same]
        window = _window_source(node)
        if gives and (span := declared(node, name)) is not None:
            yield from _inside(text, span, name)
        for program in programs_of(node):
            whose = {_Whose.INPUT: bool(read), _Whose.NODE: gives}
            for qualifier in read or ([""] if gives else []):
                yield from _in_program(program, name, qualifier, whose)
        if read:
            keys = [path for path in _OF_INPUT if window is None or path[0] != "analytic_window"]
            yield from _in_settings(text, node, keys, name)
            yield from _in_output(text, node, name)
        if window in same:
            yield from _in_settings(text, node, [path for path in _OF_INPUT if path[0] == "analytic_window"], name)
        yield from _in_references(text, node, same, name)
        if gives:
            yield from _in_settings(text, node, _OF_NODE + (_OF_SOURCE if node.is_source else ()), name)
            yield from _in_messages(text, node, name)


def _same(text: Analysis, maker: NodeSource, name: str) -> set[str]:
    """The nodes that give the same column, upstream and downstream of its maker."""
    pairs = [
        (reference.node, node.name)
        for node in text.nodes
        if name in text.given(node) and not _begins(node, name)
        for reference in node.inputs
        if not reference.qualifier
    ]
    givers = {node.name for node in text.nodes if name in text.given(node)}
    found, further = set[str](), {maker.name}
    while further:
        found |= further
        further = {node for pair in pairs if found & {*pair} for node in pair if node in givers} - found
    return found


def _begins(node: NodeSource, name: str) -> bool:
    """Whether a node makes new records with a column of a name, whatever its input calls so."""
    return node.kind == "aggregate" and any(_is_emitted(program, name) for program in programs_of(node))


def _window_source(node: NodeSource) -> str | None:
    named = next(iter(_values(node.body, ("analytic_window", "source"))), None)
    return named.text if named is not None else None


def _in_references(text: Analysis, node: NodeSource, same: set[str], name: str) -> Iterator[tuple[int, int]]:
    """The places where rules refer to a column of another node."""
    for rule in references_of(node):
        if any(scalar.text.partition(".")[0] in same for scalar in _values(rule, ("source",))):
            for scalar in _values(rule, ("to",)):
                if scalar.text == name:
                    yield from _inside(text, scalar.span, name)


def _in_settings(
    text: Analysis, node: NodeSource, paths: Iterable[tuple[str, ...]], name: str
) -> Iterator[tuple[int, int]]:
    for path in paths:
        for scalar in _values(node.body, path):
            if scalar.text == name:
                yield from _inside(text, scalar.span, name)


def _in_output(text: Analysis, node: NodeSource, name: str) -> Iterator[tuple[int, int]]:
    """The places where an output names the column.

    `columns` is left alone: it has names of the file, which may equal the names of other columns.
    """
    mapping = node.body.get("mapping") if isinstance(node.body, Mapping) else None
    given = {key: entry.value for key, entry in mapping.entries.items()} if isinstance(mapping, Mapping) else {}
    for value in given.values():
        if isinstance(value, Scalar) and value.text == name:
            yield from _inside(text, value.span, name)
    if name not in given:
        yield from _in_settings(text, node, [("columns",)], name)


def _in_messages(text: Analysis, node: NodeSource, name: str) -> Iterator[tuple[int, int]]:
    """The places where log messages show the column."""
    for scalar in _values(node.body, ("log", "message")):
        for found in re.finditer(rf"\{{({re.escape(name)})[}}.]", text.text[scalar.span.start : scalar.span.end]):
            yield scalar.span.start + found.start(1), scalar.span.start + found.end(1)


def _inside(text: Analysis, span: Span, name: str) -> Iterator[tuple[int, int]]:
    start = text.text.find(name, span.start, span.end)
    if start >= 0:
        yield start, start + len(name)


class _Whose(Enum):
    """The meaning of a name in a program."""

    INPUT = "a column that comes in"
    NODE = "a column that the node emits"
    OTHER = "a variable"


def _in_program(program: Program, name: str, qualifier: str, wanted: dict[_Whose, bool]) -> Iterator[tuple[int, int]]:
    """The places where a program names a column; with a qualifier, as a member of it."""
    if name in program.given:
        return
    for whose, place in _places(statements_of(program), name, qualifier or None):
        # Code after the node's program sees the records that it creates.
        if wanted.get(_Whose.NODE if program.is_after and whose is _Whose.INPUT else whose):
            span = program.text.span(*place)
            yield span.start, span.end


def _places(
    statements: Iterable[ast.Statement], name: str, qualifier: str | None, whose: _Whose = _Whose.INPUT
) -> Iterator[tuple[_Whose, tuple[int, int]]]:
    """The places where statements use a name, and the meaning of the name there."""
    for one in statements:
        if isinstance(one, ast.EmitEach):
            for place in _reads(one.source, name, qualifier):
                yield whose, place
            yield from _places(one.body, name, qualifier, _Whose.OTHER if one.name == name else whose)
            continue
        if isinstance(one, ast.Distinct) and one.key == name and one.key_place is not None and qualifier is None:
            yield whose, one.key_place
        for place in _reads(one, name, qualifier):
            yield _Whose.INPUT if qualifier is not None else whose, place
        if isinstance(one, ast.Emit) and one.name == name:
            whose = _Whose.NODE
            yield whose, one.name_place
        elif isinstance(one, ast.Let) and one.name == name:
            whose = _Whose.OTHER


def _reads(tree: Any, name: str, qualifier: str | None) -> Iterator[tuple[int, int]]:
    stack: list[Any] = [tree]
    while stack:
        one = stack.pop()
        match one:
            case ast.Name(name=read) if qualifier is None and read == name:
                yield one.place
            case ast.Member(base=ast.Name(name=base), name=read) if base == qualifier and read == name:
                yield one.name_place
            case ast.Member(base=ast.Method(base=ast.Dollar(namespace="window")), name=read) if (
                qualifier is None and read == name
            ):
                yield one.name_place
        if isinstance(one, tuple):
            stack += one
        elif is_dataclass(one):
            stack += [getattr(one, each.name) for each in fields(one)]


def _values(tree: Node | None, path: tuple[str, ...]) -> Iterator[Scalar]:
    """The values under a path of keys, in lists or alone."""
    if isinstance(tree, Sequence):
        for item in tree.items:
            yield from _values(item, path)
    elif isinstance(tree, Scalar):
        if not path:
            yield tree
    elif isinstance(tree, Mapping) and path:
        yield from _values(tree.get(path[0]), path[1:])
