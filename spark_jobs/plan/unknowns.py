"""Finds the problems of a pipeline that do not depend on values that are still unknown.

A scheduler fills in templates when a task runs, but reads the pipeline long before. A marker replaces every such value
while the pipeline is planned, node by node, and a problem is reported only if no value can solve it:

- no problem is reported for a place with a marker;
- a node is not bound if a marker may determine its rows, that is, if it is not in a path or in a literal of a program.
  The nodes downstream of it are not bound either. Their keys and values are still checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import limits
from spark_jobs.cxl.builtin_members import MEMBERS
from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.disk import small_files
from spark_jobs.plan import assembly, binder, pending, planner
from spark_jobs.plan.checks import overlap, produced, scoping
from spark_jobs.plan.physical import sizes
from spark_jobs.plan.reading import document, interpolation, yaml_tree
from spark_jobs.plan.reading.yaml_tree import Mapping, Node, Scalar, Sequence
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.diagnostics.source import SourceFile, Span
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.reading import workspace
    from spark_jobs.stores.location import FilePath

_MARKER = "unknown_until_rendered_"
#: A folder that does not exist, so nothing is found there.
_NOWHERE = Path(f"/{_MARKER}folder")
#: Keys of a node whose text does not decide its rows, and values that decide nothing anywhere.
_FREE_KEYS = frozenset({"path", "paths", "glob", "transport"})
_WORDS = frozenset({"description", "_notes"})
#: The same keys outside of nodes.
_FREE_SETTINGS = frozenset({"name", "metrics", "dlq"})
#: Keys with programs.
_PROGRAM_KEYS = frozenset({"cxl", "where", "conditions", "condition"})
#: Keys with the path of a file that planning reads.
_FILE_KEYS = frozenset({"use", "format_schema", "schema", "log_rules"})
#: Keys that decide which other keys are allowed beside them.
_DECIDING_KEYS = frozenset({"type", "format", "kind", "use", "name", "alias"})
#: Codes of problems with a key or a single value, whatever the other values are.
_OF_ONE_PLACE = frozenset({"E005", "E006", "E007", "E009", "E016"})
#: Codes of problems with a variable's name, whatever its value is.
_OF_NAMES = frozenset({"E009", "E016"})
#: Settings of a run outside of its nodes that decide nothing about rows. They are left out where they are not known.
_SETTINGS = (
    ("pipeline", "memory"),
    ("pipeline", "concurrency"),
    ("pipeline", "metrics"),
    ("error_handling", "type_error_threshold"),
    ("error_handling", "max_group_buffer"),
    ("error_handling", "dlq"),
)
_LITERAL = re.compile(r"""#[^\n]*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")
_IMPORT = re.compile(r"^\s*use\s", re.MULTILINE)
_READ_VARIABLE = re.compile(r"\$(vars|pipeline|source|record)\.(\w+)")

_Keys = tuple[str, ...]


@dataclass(frozen=True)
class Unknown:
    """The values that are unknown.

    Args:
        variables: names of variables; None for all of them.
        base_dir: whether the base folder is unknown.
        rules_path: whether the folder of CXL modules is unknown.
        channel: whether it is unknown which channel there is, if any.
        environment: whether the active environment is unknown.
    """

    variables: frozenset[str] | None = frozenset()
    base_dir: bool = False
    rules_path: bool = False
    channel: bool = False
    environment: bool = False

    def has(self, variable: str) -> bool:
        """True if the value of a variable is unknown."""
        if variable == "CLINKER_ENV" and self.environment:
            return True
        return self.variables is None or variable in self.variables

    def are_in(self, text: str) -> bool:
        """True if the text of a file refers to an unknown variable."""
        return "${" in text and any(map(self.has, interpolation.names(text)))


def problems(path: FilePath, options: PlanOptions, unknown: Unknown) -> list[Diagnostic]:
    """The errors that a run would find whatever the unknown values are, by position.

    Args:
        path: the pipeline file.
        options: the known values; values of unknown variables do not count.
        unknown: which values are not known.
    """
    found = Diagnostics()
    file = document.open_text(path, found)
    if file is None:
        return found.sorted()
    if (options.channel is not None and (unknown.environment or unknown.base_dir)) or unknown.channel:
        unknown = replace(unknown, channel=True)
        options = replace(options, channel=None)
    options = replace(
        options,
        base_dir=_NOWHERE if unknown.base_dir else options.base_dir,
        rules_path=_NOWHERE if unknown.rules_path else options.rules_path,
        variables=_Trial(unknown, options.lookup, file.text),
        environment=None if unknown.environment else options.environment,
    )
    return _Check(path, file, options, unknown).problems()


@dataclass
class _Trial(MappingType[str, str]):
    """The variables, with markers for those that are unknown."""

    unknown: Unknown
    known: MappingType[str, str]
    text: str

    def __getitem__(self, name: str) -> str:
        if not self.unknown.has(name):
            return self.known[name]
        # A URL has to look like one.
        is_url = re.search(rf"\burl:\s*[\"']?\$\{{{name}\b", self.text)
        return ("https://" if is_url else "") + _MARKER + name.lower()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (self.unknown.has(name) or name in self.known)

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


@dataclass
class _Item:
    """A node as it is written, and its unknown parts.

    Args:
        span: its place.
        name: its name.
        is_open: an unknown value may decide its rows.
        is_unread: whether something unknown decides which keys it has.
        is_call: whether a composition takes its place.
    """

    span: Span
    name: str
    is_open: bool
    is_unread: bool
    is_call: bool


@dataclass
class _Check:
    path: FilePath
    file: SourceFile
    options: PlanOptions
    unknown: Unknown
    items: list[_Item] = field(default_factory=list)
    values: list[Span] = field(default_factory=list)
    is_setting_left_out: bool = False

    def problems(self) -> list[Diagnostic]:
        """The problems that no value mends."""
        found = Diagnostics()
        tree = yaml_tree.read(self.file, self.options.lookup, found)
        if not isinstance(tree, Mapping):
            document.read(self.file, self.options.lookup, found)
            return self._certain(found)
        if self._is_renamed(tree):
            return []
        self._leave_out(tree)
        read = document.read_tree(self.file, tree, found)
        nodes = tree.get("nodes")
        self.items = [self._item(item) for item in nodes.items] if isinstance(nodes, Sequence) else []
        self.values = [scalar.span for _, scalar in _scalars(tree)]
        if len(read.nodes) > limits.NODES:
            planner.plan_document(read, self.path, self.options, found)
            return self._certain(found)
        bindings, space = planner.prepare(read, self.path, self.options, found)
        channel = bindings.channel
        if self.options.channel is not None and (channel is None or self.unknown.are_in(channel.target.span.file.text)):
            certain = self._certain(found)
            if channel is None and any(problem.code is codes.E112 for problem in certain):
                return certain
            return _Check(
                self.path, self.file, replace(self.options, channel=None), replace(self.unknown, channel=True)
            ).problems()
        certain = self._certain(found)
        if certain or self._are_rows_open(tree, found):
            return certain
        return self._bound(read, bindings, space, found)

    def _bound(
        self, read: document.Document, bindings: binder.Bindings, space: workspace.Workspace, found: Diagnostics
    ) -> list[Diagnostic]:
        """The problems that binding finds."""
        if self.unknown.channel:
            bindings.tokens = {**bindings.tokens, "channel": f"{_MARKER}channel"}
        order = bindings.graph.order
        bindings.graph.order = [name for name in order if self._is_bindable(name, bindings)]
        is_whole = bindings.graph.order == order and not found.has_errors
        binder.bind(bindings)
        if is_whole:
            scoping.check(bindings)
            produced.check(bindings)
            overlap.check_shadows(bindings)
        if is_whole and not found.has_errors:
            nodes = assembly.planned_nodes(bindings)
            errors = assembly.error_handling(read, bindings, nodes, bindings.base_dir, found)
            limit = assembly.memory_limit(read, self.options, found)
            if not self.is_setting_left_out:
                sizes.check(nodes, bindings.graph, bindings.base_dir, limit, found)
            if not found.has_errors:
                parts = (read, self.path, bindings.base_dir, nodes, errors, bindings, self.options, limit, space)
                plan = assembly.finished(*parts)
                found.extend(pending.pending(plan))
        unbound = (set(bindings.graph.nodes) | read.broken) - set(bindings.bound)
        return [problem for problem in self._certain(found) if not _names_one_of(problem, unbound)]

    def _is_bindable(self, name: str, bindings: binder.Bindings) -> bool:
        """True if the type and the settings of a node depend on nothing unknown."""
        node = bindings.graph.nodes[name]
        if node.config is None or len(bindings.graph.inputs[name]) < len(node.inputs):
            return False
        if node.instance and (self.unknown.channel or any(item.is_call and item.is_open for item in self.items)):
            return False
        for keys, scalar in _scalars(node.tree):
            if not _is_free(keys, scalar.text):
                return False
            if self._is_import(keys, scalar) or (self.unknown.channel and _is_undeclared(scalar.text, bindings)):
                return False
        place = node.span
        return not any(item.is_open and _covers(item.span, place) for item in self.items)

    def _is_import(self, keys: _Keys, scalar: Scalar) -> bool:
        is_unknown = self.unknown.rules_path or self.unknown.base_dir
        return is_unknown and not _PROGRAM_KEYS.isdisjoint(keys) and _IMPORT.search(scalar.text) is not None

    def _item(self, tree: Node) -> _Item:
        """The unknown parts of a node."""
        scalars = list(_scalars(tree))
        name = tree.get("name") if isinstance(tree, Mapping) else None
        is_call = isinstance(tree, Mapping) and "use" in tree.entries
        open_ones = [keys for keys, scalar in scalars if self._is_open(keys, scalar)]
        return _Item(
            tree.span,
            name.text if isinstance(name, Scalar) else "",
            is_open=bool(open_ones),
            is_unread=any(keys[-1:] and keys[-1] in _DECIDING_KEYS for keys in open_ones),
            is_call=is_call,
        )

    def _is_open(self, keys: _Keys, scalar: Scalar) -> bool:
        if keys and keys[-1] in _FILE_KEYS:
            return self.unknown.base_dir or _MARKER in scalar.text or self._reads_unknown(scalar.text, 0)
        return not _is_free(keys, scalar.text)

    def _reads_unknown(self, path: str, depth: int) -> bool:
        """True if something unknown stands in a file that planning reads, or in one that this file names."""
        if location.is_uri(path):
            return True  # no store is asked while DAG files are parsed
        folder = self.options.base_dir or self.path.parent
        try:
            text = small_files.read(location.located(path, folder), 4 * limits.FILE_CHARACTERS).decode(errors="replace")
        except (OSError, ValueError, small_files.TooLarge):
            return False  # which is told
        return self.unknown.are_in(text) or re.search(r"\buse\s*:", text) is not None

    def _is_renamed(self, tree: Mapping) -> bool:
        """True if something unknown is the name of a node, by which any other may know it."""
        nodes = tree.get("nodes")
        items = nodes.items if isinstance(nodes, Sequence) else []
        names = [item.get(key) for item in items if isinstance(item, Mapping) for key in ("name", "alias")]
        return any(isinstance(name, Scalar) and _MARKER in name.text for name in names)

    def _leave_out(self, tree: Mapping) -> None:
        """Leave out the settings that are not known and change no row, and defaults of variables with a type."""
        for keys in _SETTINGS:
            block = tree.get(keys[0])
            if isinstance(block, Mapping) and _without_markers(block, keys[1], stays=("path", "spool_dir")):
                self.is_setting_left_out = True
        pipeline = tree.get("pipeline")
        declared = pipeline.get("vars") if isinstance(pipeline, Mapping) else None
        waiting = [declared]
        while waiting:
            block = waiting.pop()
            if not isinstance(block, Mapping):
                continue
            default = block.get("default")
            if isinstance(block.get("type"), Scalar) and isinstance(default, Scalar) and _MARKER in default.text:
                del block.entries["default"]
            waiting += [entry.value for entry in block.entries.values()]

    def _are_rows_open(self, tree: Mapping, found: Diagnostics) -> bool:
        """True if something unknown outside of the nodes, or a variable that a node declares, may change any row."""
        blocks = [tree.get("pipeline"), tree.get("error_handling")]
        for keys, scalar in (pair for block in blocks if block is not None for pair in _scalars(block)):
            is_free = not _FREE_SETTINGS.isdisjoint(keys[:1]) or not _WORDS.isdisjoint(keys)
            if _MARKER in scalar.text and not is_free:
                return True
        nodes = tree.get("nodes")
        return any("declares" in keys and _MARKER in scalar.text for keys, scalar in _scalars(nodes or tree))

    def _certain(self, found: Diagnostics) -> list[Diagnostic]:
        return [problem for problem in found.sorted() if problem.is_error and self._is_certain(problem)]

    def _is_certain(self, problem: Diagnostic) -> bool:
        code, span = problem.code.id, problem.span
        if span is None:
            return _MARKER not in problem.message
        if code in _OF_NAMES:
            return True
        written = span.file.text[span.start : span.end]
        if self.unknown.are_in(written) or _MARKER in f"{problem.message} {problem.help}":
            return False
        if span.file.name != self.file.name:
            has_open_call = self.unknown.channel or any(item.is_call and item.is_open for item in self.items)
            return not has_open_call and not self.unknown.are_in(span.file.text)
        if self.unknown.channel and problem.code is codes.E014:
            return False
        item = next((item for item in self.items if _covers(item.span, span)), None)
        if item is None:
            return True
        if item.is_unread or (item.is_call and self.unknown.channel):
            return False
        if item.is_open:
            return code in _OF_ONE_PLACE and (problem.code is not codes.E007 or span in self.values)
        return True


def _scalars(tree: Node) -> Iterator[tuple[_Keys, Scalar]]:
    """All values of a tree with the keys that lead to them."""
    waiting: list[tuple[_Keys, Node]] = [((), tree)]
    while waiting:
        keys, node = waiting.pop()
        match node:
            case Scalar():
                yield keys, node
            case Sequence():
                waiting += [(keys, item) for item in node.items]
            case Mapping():
                waiting += [((*keys, key), entry.value) for key, entry in node.entries.items()]


def _is_free(keys: _Keys, text: str) -> bool:
    """True if no marker in a text decides what rows are."""
    inner = keys[1:] if keys[:1] == ("config",) else keys
    if _MARKER not in text or not _FREE_KEYS.isdisjoint(inner[:1]) or not _WORDS.isdisjoint(keys):
        return True
    return not _PROGRAM_KEYS.isdisjoint(keys) and _MARKER not in _LITERAL.sub("", text)


def _is_undeclared(text: str, bindings: binder.Bindings) -> bool:
    """True if a program reads a variable that only a channel may declare."""
    declared = bindings.variables.declared
    return any(
        name not in declared[space] and name not in MEMBERS.get(space, ())
        for space, name in _READ_VARIABLE.findall(text)
    )


def _without_markers(block: Mapping, key: str, stays: _Keys) -> bool:
    """Remove entries with a marker below a key, but for the keys that stay. Returns True if there were any."""
    value = block.get(key)
    match value:
        case Scalar() if _MARKER in value.text and key not in stays:
            del block.entries[key]
            return True
        case Mapping():
            removed = [_without_markers(value, inner, stays) for inner in list(value.entries)]
            return any(removed)
        case _:
            return False


def _covers(outer: Span, inner: Span) -> bool:
    return outer.file.name == inner.file.name and outer.start <= inner.start < max(outer.end, outer.start + 1)


def _names_one_of(problem: Diagnostic, nodes: set[str]) -> bool:
    """True if a problem is about a node that nothing is known of."""
    written = problem.span.file.text[problem.span.start : problem.span.end] if problem.span else ""
    return any(re.search(rf"\b{re.escape(name)}\b", written) for name in nodes)
