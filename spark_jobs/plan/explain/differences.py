"""Differences between two versions of a pipeline: settings, statements, columns, and their effects on outputs.

Layout, comments and the order of keys and nodes are no difference. Not here: how it is shown.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import tree_walk
from spark_jobs.cxl.syntax import ast, formatter, parser
from spark_jobs.plan.explain import lineage
from spark_jobs.plan.reading import reader
from spark_jobs.plan.reading.yaml_tree import Mapping, Scalar, Sequence, is_null

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Mapping as MappingType

    from spark_jobs.plan.explain.lineage import Derivation
    from spark_jobs.plan.plan import Plan, PlannedNode
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.plan.reading.yaml_tree import Node

#: Keys that say something to people alone.
_REMARKS = ("description", "_notes")
_HIDDEN = "***"
#: All columns that a node makes itself.
_ALL = None
#: Statements that decide which records go on.
_CHOOSING = (ast.Filter, ast.Distinct, ast.EmitEach)
#: Statements that any column may depend on.
_DEFINING = (ast.EmitEach, ast.EmitMeta, ast.EmitSystem, ast.Use, ast.Fn)
#: Settings of nodes whose columns decide which records go on, or in which order.
_DECIDING = ("where", "conditions", "routes", "validations", "group_by", "sort_order", "split")
#: Mappings whose order matters: the first condition that holds takes a record, and the first input drives a combine.
_ORDERED = ("conditions", "routes", "input", "inputs")
#: Settings of the pipeline that may change the records of any node.
_EVERYWHERE = ("pipeline.date_formats", "pipeline.date_locale", "pipeline.rules_path", "error_handling.correlation")
_WORD = re.compile(r"\w+")
_VARIABLE = re.compile(r"\$\w+\.(\w+)")


@dataclass(frozen=True)
class Version:
    """One version of a pipeline.

    Args:
        plan: its plan.
        tree: its file.
        nodes: its nodes as written, with the bodies of compositions and the changes of a channel.
    """

    plan: Plan
    tree: Mapping
    nodes: tuple[NodeSource, ...]


@dataclass(frozen=True)
class Setting:
    """A key with another value, both as they are written; None if the key is absent. No secret is shown."""

    key: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class ColumnChange:
    """A column that is added (no old type), removed (no new type), or of another type."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class NodeChange:
    """A node that differs.

    Args:
        name: its name, which is the same in both versions.
        kind: its type in the new version.
        settings: its keys with other values, without its program.
        statements: the lines of its program that are gone (`- …`) or new (`+ …`), in canonical layout.
        columns: the columns of its records that differ.
    """

    name: str
    kind: str
    settings: list[Setting]
    statements: list[str]
    columns: list[ColumnChange]


@dataclass(frozen=True)
class OutputEffect:
    """The possible effect of a change on an output that both versions have.

    Args:
        name: the output.
        columns: its columns whose values may differ.
        records: whether it may have other records, or the same in another order.
    """

    name: str
    columns: list[str]
    records: bool


@dataclass(frozen=True)
class Differences:
    """All differences; nodes are named with their types."""

    settings: list[Setting]
    added: dict[str, str]
    removed: dict[str, str]
    changed: list[NodeChange]
    outputs: list[OutputEffect]

    def __bool__(self) -> bool:
        return bool(self.settings or self.added or self.removed or self.changed)


def between(old: Version, new: Version) -> Differences:
    """The differences between two versions."""
    before, after = ({node.name: node for node in version.nodes} for version in (old, new))
    both = [name for name in after if name in before]
    settings = list(_settings(_apart_from_nodes(old.tree), _apart_from_nodes(new.tree)))
    context = _ChangedContext.of(settings)
    comparisons = {
        name: _NodeComparison.of(before[name], after[name], name in new.plan.outputs, context) for name in both
    }
    changed = []
    for name, one in comparisons.items():
        columns = _columns(old.plan, new.plan, name)
        # Columns that other nodes pass on are reported at the first and the last node only.
        if one.differs or (columns and name in new.plan.outputs):
            changed.append(NodeChange(name, after[name].kind, one.settings, one.statements, columns))
    return Differences(
        settings,
        {name: node.kind for name, node in after.items() if name not in before},
        {name: node.kind for name, node in before.items() if name not in after},
        changed,
        list(_Effects(old.plan, new.plan, comparisons, after).of_outputs()),
    )


@dataclass(frozen=True)
class _ChangedContext:
    """The changes outside of nodes.

    Args:
        variables: names of variables that are declared otherwise.
        everywhere: whether any node may mean something else.
    """

    variables: frozenset[str]
    everywhere: bool

    @classmethod
    def of(cls, settings: Iterable[Setting]) -> _ChangedContext:
        keys = [setting.key for setting in settings]
        declared = [key.split(".")[2:] for key in keys if key.startswith("pipeline.vars.")]
        return cls(
            frozenset(name for key in declared for name in key), any(key.startswith(_EVERYWHERE) for key in keys)
        )

    def change(self, node: NodeSource) -> bool:
        """True if a node may mean something else than before."""
        read = {name for _, one in _leaves(node.tree, ()) for name in _VARIABLE.findall(one.text)}
        return self.everywhere or bool(read & self.variables)


@dataclass(frozen=True)
class _NodeComparison:
    """The differences of a node and their effects.

    Args:
        settings: as in `NodeChange`.
        statements: the same.
        columns: the columns that the node itself defines otherwise; None: it may be all that do not just pass.
        records: whether it may let other records through.
    """

    settings: list[Setting]
    statements: list[str]
    columns: frozenset[str] | None
    records: bool

    @property
    def differs(self) -> bool:
        return bool(self.settings or self.statements)

    @classmethod
    def of(cls, old: NodeSource, new: NodeSource, is_output: bool, context: _ChangedContext) -> _NodeComparison:
        programs = [_program(node) for node in (old, new)]
        settings = [*_settings(_without_program(old.tree), _without_program(new.tree)), *_other_order(old, new)]
        # Names of inputs do not count, only the records behind them.
        own = [setting for setting in settings if not setting.key.startswith(("input", "inputs", "config.schema."))]
        typed = {setting.key.split(".")[2] for setting in settings if setting.key.startswith("config.schema.")}
        defined: frozenset[str] | None = frozenset(typed)
        sorted_ = any(setting.key.startswith("config.sort_order") for setting in settings)
        records = sorted_ if is_output else bool(settings)
        if own and not is_output:
            defined = _ALL
        if not is_output and context.change(new):
            defined, records = _ALL, True
        statements: list[str] = []
        if programs[0] != programs[1]:
            statements = _changed_lines(*programs)
            emitted, lets_others_through = _redefined(*programs)
            records = records or lets_others_through
            defined = _ALL if defined is _ALL or emitted is _ALL else defined | emitted
        return cls(settings, statements, defined, records)


class _Effects:
    """The effects of changes on downstream nodes.

    Args:
        old: the old plan.
        new: the new one.
        nodes: how the nodes of both differ.
        written: the nodes of the new version as they are written.
    """

    def __init__(
        self,
        old: Plan,
        new: Plan,
        nodes: MappingType[str, _NodeComparison],
        written: MappingType[str, NodeSource],
    ) -> None:
        self._old = old
        self._new = new
        self._nodes = nodes
        self._written = written
        self._values: dict[tuple[str, str], bool] = {}
        #: True if the nodes have other records; a node is looked up after the nodes upstream of it.
        self._records: dict[str, bool] = {}
        for planned in new.nodes:
            self._records[planned.name] = self._has_other_records(planned)

    def of_outputs(self) -> Iterator[OutputEffect]:
        """The effects on the outputs that both versions have."""
        origins = defaultdict(list)
        for each in lineage.of_outputs(self._new):
            origins[each.node].append(each)
        for name in self._new.outputs:
            if name not in self._old.outputs:
                continue
            shared = set(lineage.columns(self._old, name))
            columns = [each.column for each in origins[name] if each.column in shared and self._is_affected(each)]
            if columns or self._records[name]:
                yield OutputEffect(name, columns, self._records[name])

    def _is_affected(self, one: Derivation) -> bool:
        """True if a column may have other values than in the old version."""
        stack = [one]
        while stack:
            each = stack[-1]
            place = (each.node, each.column)
            if place in self._values:
                stack.pop()
                continue
            waiting = [parent for parent in each.parents if (parent.node, parent.column) not in self._values]
            if waiting:
                stack += waiting
                continue
            self._values[place] = self._is_redefined(each) or any(
                self._values[parent.node, parent.column] for parent in each.parents
            )
            stack.pop()
        return self._values[one.node, one.column]

    def _is_redefined(self, one: Derivation) -> bool:
        if one.how == "passed on":
            return False
        found = self._nodes.get(one.node)
        if found is None or found.columns is _ALL or one.column in found.columns or self._is_of_others(one):
            return True
        before = lineage.of_column(self._old, one.node, one.column)
        return before is None or before.how != one.how

    def _is_of_others(self, one: Derivation) -> bool:
        """True if a value is made of several records, and these may be others."""
        planned = self._new.by_name[one.node]
        others = [edge for edge in planned.inputs if self._records[edge.node]]
        if one.how == "aggregated":
            return bool(others)
        if any(edge.qualifier for edge in planned.inputs):
            return any(edge.qualifier != getattr(planned.step, "driver", None) for edge in others)
        written = self._written.get(one.node)
        return bool(others) and written is not None and "$window" in _program(written)

    def _has_other_records(self, planned: PlannedNode) -> bool:
        found = self._nodes.get(planned.name)
        before = self._old.by_name.get(planned.name)
        feeds = {edge.node for edge in planned.inputs}
        own = found.records if found is not None else planned.name not in self._new.outputs
        # A node that was taken out from between two others is missed by the one downstream of it.
        is_rewired = before is not None and any(edge.node not in self._new.by_name for edge in before.inputs)
        return own or is_rewired or any(self._records[feed] for feed in feeds) or self._chooses_otherwise(planned)

    def _chooses_otherwise(self, planned: PlannedNode) -> bool:
        """True if a node chooses its records by a column that may have other values."""
        written = self._written.get(planned.name)
        by = _deciding(written) if written is not None else frozenset[str]()
        return any(
            (found := lineage.of_column(self._new, edge.node, column)) is not None and self._is_affected(found)
            for edge in planned.inputs
            for column in lineage.columns(self._new, edge.node)
            if by is _ALL or column in by
        )


def _deciding(node: NodeSource) -> frozenset[str] | None:
    """The columns by which a node chooses its records, and other words; None: it may be all."""
    config = node.tree.get("config")
    trees = [tree for key in _DECIDING if isinstance(config, Mapping) and (tree := config.get(key)) is not None]
    words = {word for tree in trees for _, one in _leaves(tree, ()) for word in _WORD.findall(one.text)}
    with tree_walk.room():
        statements = parser.parse(_program(node)).tree.statements
        choosing = _of(statements, _CHOOSING)
        if any(isinstance(one, ast.Distinct) and one.key is None for one in choosing):
            return _ALL
        window = config.get("analytic_window") if isinstance(config, Mapping) else None
        if choosing and window is not None:
            words |= {one.text for _, one in _leaves(window, ())}
        return frozenset(words | _deciding_names(choosing, _definitions(statements)))


def _deciding_names(choosing: Iterable[ast.Statement], definitions: MappingType[str, list[ast.Expression]]) -> set[str]:
    """The names that decide which records go on, with those that they are made of."""
    found: set[str] = set()
    further = {name for one in choosing for name in _chosen_by(one)}
    while further:
        found |= further
        further = {read for name in further for value in definitions.get(name, ()) for read in _names(value)} - found
    return found


def _chosen_by(one: ast.Statement) -> Iterator[str]:
    if isinstance(one, ast.Distinct) and one.key is not None:
        yield one.key
    yield from _names(one.source if isinstance(one, ast.EmitEach) else one)


def _columns(old: Plan, new: Plan, node: str) -> list[ColumnChange]:
    """The columns of a node that differ; the order of columns is no difference."""
    if node not in old.by_name or node not in new.by_name:
        return []
    before, after = (_types(plan, node) for plan in (old, new))
    return [
        ColumnChange(name, before.get(name), after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]


def _types(plan: Plan, node: str) -> dict[str, str]:
    if node in plan.outputs:
        edge = plan.by_name[node].inputs[0]
        types = {column.name: str(column.type) for column in plan.by_name[edge.node].outputs[edge.port].user_columns}
        return {column.name: types.get(column.source, "") for column in plan.outputs[node].columns}
    return {
        column.name: str(column.type) for rows in plan.by_name[node].outputs.values() for column in rows.user_columns
    }


def _apart_from_nodes(tree: Mapping) -> Mapping:
    return Mapping(tree.span, {key: entry for key, entry in tree.entries.items() if key != "nodes"})


def _without_program(tree: Mapping) -> Mapping:
    config = tree.get("config")
    entries = {key: entry for key, entry in tree.entries.items() if key not in _REMARKS}
    if isinstance(config, Mapping):
        kept = {key: entry for key, entry in config.entries.items() if key != "cxl"}
        entries["config"] = type(tree.entries["config"])(tree.entries["config"].key, Mapping(config.span, kept))
    return Mapping(tree.span, entries)


def _settings(old: Node, new: Node) -> Iterator[Setting]:
    """The keys with different values, the keys of the old version first."""
    before, after = (dict(_leaves(tree, ())) for tree in (old, new))
    for key in dict.fromkeys((*before, *after)):
        a, b = before.get(key), after.get(key)
        if (a.text if a else None) != (b.text if b else None):
            yield Setting(".".join(key), _shown(a), _shown(b))
        elif a and b and type(reader.data(a)) is not type(reader.data(b)):
            yield Setting(".".join(key), _as_written(a), _as_written(b))


def _as_written(value: Scalar) -> str | None:
    """A value as it is shown beside one of another type: texts in quotes."""
    return f'"{_shown(value)}"' if isinstance(reader.data(value), str) else _shown(value)


def _other_order(old: NodeSource, new: NodeSource) -> Iterator[Setting]:
    """Mappings that have the same keys in another order, where that matters."""
    if new.is_call:
        return
    for key in _ORDERED:
        path = (key,) if key.startswith("input") else ("config", key)
        before, after = (reader.locate(node.tree, path) for node in (old, new))
        if before[2] < len(path) or after[2] < len(path):
            continue
        keys = [list(tree.entries) if isinstance(tree, Mapping) else [] for tree, _, _ in (before, after)]
        if keys[0] != keys[1] and sorted(keys[0]) == sorted(keys[1]):
            yield Setting(".".join(path), ", ".join(keys[0]), ", ".join(keys[1]))


def _leaves(tree: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Scalar]]:
    """The values of a tree by their keys; entries of lists are called by their `name`, or by their numbers."""
    if isinstance(tree, Scalar):
        if not is_null(tree):
            yield path, tree
    elif isinstance(tree, Sequence):
        named = [item.get("name") if isinstance(item, Mapping) else None for item in tree.items]
        names = [name.text if isinstance(name, Scalar) else "" for name in named]
        for number, (item, name) in enumerate(zip(tree.items, names, strict=True), 1):
            yield from _leaves(item, (*path, name if name and names.count(name) == 1 else str(number)))
    else:
        for key, entry in tree.entries.items():
            yield from _leaves(entry.value, (*path, key))


def _shown(value: Scalar | None) -> str | None:
    if value is None:
        return None
    return _HIDDEN if value.has_secrets or value.span.is_hidden else value.text.strip()


def _program(node: NodeSource) -> str:
    """The text of a node's program, without comments."""
    config = node.tree.get("config")
    written = config.get("cxl") if isinstance(config, Mapping) else None
    if not isinstance(written, Scalar):
        return ""
    text = written.text
    for comment in formatter.comments(text):
        text = text[: comment.start] + " " * (comment.end - comment.start) + text[comment.end :]
    return text


def _changed_lines(old: str, new: str) -> list[str]:
    lines = difflib.ndiff(_canonical(old).splitlines(), _canonical(new).splitlines())
    return [line.rstrip() for line in lines if line.startswith(("- ", "+ "))]


def _canonical(text: str) -> str:
    with tree_walk.room():
        return formatter.format_program(text, parser.parse(text).tree)


def _redefined(old: str, new: str) -> tuple[frozenset[str] | None, bool]:
    """The columns that two programs emit otherwise (None: it may be all), and whether other records may pass."""
    with tree_walk.room():
        trees = [parser.parse(text).tree.statements for text in (old, new)]
        choosing = [_of(tree, _CHOOSING) for tree in trees]
        definitions = [_definitions(tree) for tree in trees]
        by = _deciding_names(choosing[1], definitions[1])
        records = choosing[0] != choosing[1] or any(definitions[0].get(name) != definitions[1].get(name) for name in by)
        # The same statements in another order may read other values.
        orders = [[_heading(one) for one in tree] for tree in trees]
        if orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]):
            return _ALL, records or bool(choosing[1])
        if _of(trees[0], _DEFINING) != _of(trees[1], _DEFINING):
            return _ALL, records
    names = dict.fromkeys((*definitions[0], *definitions[1]))
    changed = {name for name in names if definitions[0].get(name) != definitions[1].get(name)}
    reads = {name: {read for value in definitions[1].get(name, ()) for read in _names(value)} for name in names}
    # A name that is defined by a changed name has changed, too.
    while more := {name for name in names if name not in changed and reads[name] & changed}:
        changed |= more
    emitted = {one.name for tree in trees for one in tree if isinstance(one, ast.Emit)}
    return frozenset(changed & emitted), records


def _heading(one: ast.Statement) -> str:
    return f"{type(one).__name__} {one.name}" if isinstance(one, ast.Emit | ast.Let) else type(one).__name__


def _of(statements: Iterable[ast.Statement], kinds: tuple[type[ast.Statement], ...]) -> list[ast.Statement]:
    return [one for one in statements if isinstance(one, kinds)]


def _definitions(statements: Iterable[ast.Statement]) -> dict[str, list[ast.Expression]]:
    found: dict[str, list[ast.Expression]] = {}
    for one in statements:
        if isinstance(one, ast.Emit | ast.Let):
            found.setdefault(one.name, []).append(one.value)
    return found


def _names(tree: Any) -> Iterator[str]:
    """The plain names in an expression."""
    stack: list[Any] = [tree]
    while stack:
        one = stack.pop()
        if isinstance(one, ast.Name):
            yield one.name
        elif isinstance(one, tuple):
            stack += one
        elif is_dataclass(one):
            stack += [getattr(one, each.name) for each in fields(one)]
