"""Analysis of a pipeline's text: its problems, and the meaning of each place in it.

Places are character offsets into the text. For a text that does not parse, the results are empty as far as they are
unknown; callers keep the last state that could be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from spark_jobs.cli import functions
from spark_jobs.cxl import tree_walk
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.syntax import ast, formatter, parser
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.source import SourceFile
from spark_jobs.nodes import registry
from spark_jobs.nodes.rules import model as rules
from spark_jobs.plan import binder, pending, planner
from spark_jobs.plan.explain import lineage
from spark_jobs.plan.reading import document, reader
from spark_jobs.plan.reading.yaml_tree import Mapping, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.diagnostics.source import Span, Text
    from spark_jobs.plan.binder import Bindings
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.plan import Plan
    from spark_jobs.plan.reading.document import Document
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.plan.reading.yaml_tree import Node

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIPELINE = re.compile(r"^(pipeline|nodes)[ \t]*:", re.MULTILINE)
_NO_PIPELINE = re.compile(r"^(_compose|cases)[ \t]*:", re.MULTILINE)
_PROPOSED = re.compile(r"did you mean [`'‘]([^`'’]+)[`'’]")
_DEFINES = re.compile(r"^[ \t]*(?:emit|let)\s+([A-Za-z_][A-Za-z0-9_]*)\s*=", re.MULTILINE)
_STATEMENTS = ("emit", "let", "filter", "distinct")
#: The nodes that have rules on all records, and what begins one.
_RULED = ("source", "output")
_RULE = re.compile(r"(?:-\s*\{?|[\[,]\s*\{)\s*$")
_CONSTANTS = ("and", "or", "not", "if", "then", "else", "match", "true", "false", "null")


@dataclass(frozen=True)
class Proposal:
    """Something that may be written at a place.

    Args:
        text: the text to insert.
        kind: `column`, `method`, `function`, `node`, `type`, `key`, `variable` or `keyword`.
        detail: its type or signature.
        documentation: what there is to say of it, in Markdown.
    """

    text: str
    kind: str
    detail: str = ""
    documentation: str = ""


@dataclass(frozen=True)
class Edit:
    """A stretch of the text, and what replaces it."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Remedy:
    """A proposal of a diagnostic, as an edit."""

    title: str
    edit: Edit


@dataclass(frozen=True)
class Program:
    """A CXL text in the pipeline.

    Args:
        node: the node it belongs to.
        scalar: the value that has it.
        text: the text with the places of its characters.
        is_after: whether it sees the node's output records, and not its input records.
        given: names of constants, which hide columns.
    """

    node: NodeSource
    scalar: Scalar
    text: Text
    is_after: bool = False
    given: frozenset[str] = frozenset()

    def offset_of(self, place: int) -> int | None:
        """The offset in the program of a place in the file; None where the place is outside."""
        if not self.scalar.span.start <= place <= self.scalar.span.end:
            return None
        # Segments map offsets of the program to places: the last one that begins at or before the place.
        for value, begin in reversed(self.text.segments):
            if begin <= place:
                return min(value + place - begin, len(self.text.value))
        return 0


class Analysis:
    """The findings about a text.

    Args:
        path: where the text is, or will be, saved: other files are found from there.
        text: the text.
        options: how the pipeline is planned.
    """

    def __init__(self, path: Path, text: str, options: PlanOptions) -> None:
        self.path = path
        self.text = text
        self._options = options

    @cached_property
    def _read(self) -> tuple[Document | None, Diagnostics]:
        found = Diagnostics()
        file = SourceFile(str(self.path), self.text)
        return document.read(file, self._options.lookup, found), found

    @cached_property
    def _planned(self) -> tuple[Plan | None, list[Diagnostic]]:
        read, found = self._read
        problems = Diagnostics()
        problems.extend(found.items)
        plan = planner.plan_document(read, self.path, self._options, problems) if read is not None else None
        more = pending.uris(plan) if plan is not None else []
        return plan, [*problems.sorted(), *more]

    @cached_property
    def _bindings(self) -> Bindings | None:
        """The bindings of every node that can be bound, despite problems of others."""
        read, _ = self._read
        if read is None:
            return None
        bindings, _ = planner.prepare(read, self.path, self._options, Diagnostics())
        binder.bind(bindings)
        return bindings

    @property
    def is_pipeline(self) -> bool:
        """Whether the text is meant as a pipeline: other YAML files, compositions and cases too, are opened as well."""
        return bool(_PIPELINE.search(self.text)) and not _NO_PIPELINE.search(self.text)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """All problems, in the order of their places; none where the text is no pipeline."""
        return self._planned[1] if self.is_pipeline else []

    @property
    def plan(self) -> Plan | None:
        """The plan of a pipeline without errors."""
        return self._planned[0]

    @property
    def nodes(self) -> list[NodeSource]:
        """The nodes, as far as they could be read."""
        read, _ = self._read
        return read.nodes if read is not None else []

    @property
    def is_readable(self) -> bool:
        """Whether the text has nodes."""
        return bool(self.nodes)

    def changed(self, edits: Iterable[Edit]) -> Analysis:
        """The state after edits, which do not overlap."""
        text = self.text
        for edit in sorted(edits, key=lambda one: one.start, reverse=True):
            text = text[: edit.start] + edit.text + text[edit.end :]
        return Analysis(self.path, text, self._options)

    def node_at(self, place: int) -> NodeSource | None:
        """The node that is written at a place: the last one that begins before it."""
        before = [node for node in self.nodes if node.tree.span.start <= place]
        return max(before, key=lambda node: node.tree.span.start, default=None)

    def program_at(self, place: int) -> Program | None:
        """The CXL text at a place."""
        node = self.node_at(place)
        programs = programs_of(node) if node is not None else []
        return next((one for one in programs if one.offset_of(place) is not None), None)

    def columns(self, node: NodeSource) -> dict[str, str]:
        """The columns that a node reads, with their types; the columns of a combine are `qualifier.column`."""
        bindings = self._bindings
        if bindings is None or node.name not in bindings.graph.inputs:
            return {}
        found: dict[str, str] = {}
        for reference in bindings.graph.inputs[node.name]:
            flow = bindings.flows.get(reference.node, {}).get(reference.port)
            if flow is None:
                continue
            before = f"{reference.qualifier}." if reference.qualifier else ""
            found |= {f"{before}{column.name}": str(column.type) for column in flow.schema.user_columns}
        return found

    def given(self, node: NodeSource) -> dict[str, str]:
        """The output columns of a node, with their types. A route has the columns of its first branch."""
        bindings = self._bindings
        flows = list(bindings.flows.get(node.name, {}).values()) if bindings is not None else []
        return {column.name: str(column.type) for column in flows[0].schema.user_columns} if flows else {}

    def seen(self, program: Program) -> dict[str, str]:
        """The columns that a program may read, with their types."""
        return self.given(program.node) if program.is_after else self.columns(program.node)

    def ports(self) -> list[str]:
        """The names that an input may use: nodes with records, and branches of routes."""
        named = []
        for node in self.nodes:
            if node.type.is_end:
                continue
            branches = _branches(node)
            named += [f"{node.name}.{branch}" for branch in branches] if branches else [node.name]
        return named

    def word_at(self, place: int) -> tuple[int, int]:
        """The start and end of the name at a place; an empty range if there is none."""
        for found in _WORD.finditer(self.text, self.text.rfind("\n", 0, place) + 1):
            if found.start() <= place <= found.end():
                return found.span()
            if found.start() > place:
                break
        return place, place

    def hover(self, place: int) -> str | None:
        """The documentation of a name, in Markdown."""
        start, end = self.word_at(place)
        word = self.text[start:end]
        program = self.program_at(place)
        if not word:
            return None
        if program is None:
            referred = self._referred(place)
            return self._of_node(referred) if referred is not None else self._of_rule(start, end)
        if start > 0 and self.text[start - 1] == "." and (found := functions.methods(word)):
            return "\n\n".join(_documented(one) for one in found)
        columns = self.seen(program)
        name = self._qualified(start, word)
        if name in columns:
            return f"`{name}` — column, {columns[name]}" + self._origin(program.node, name)
        if name in self.given(program.node):
            return f"`{name}` — column, {self.given(program.node)[name]}"
        function = declare.aggregates().get(word) or declare.windows().get(word)
        return f"**{word}**\n\n{functions.prose(function.doc)}" if function is not None else None

    def _of_rule(self, start: int, end: int) -> str | None:
        """The documentation of a rule, if a word is the name of one."""
        word, line = self.text[start:end], self.text.rfind("\n", 0, start) + 1
        node = self.node_at(start)
        is_rule = word in rules.KINDS and node is not None and _has_rules(node)
        if not is_rule or _RULE.search(self.text[line:start]) is None or not self.text[end:].lstrip().startswith(":"):
            return None
        return f"**{word}**\n\n{rules.described(word)}"

    def _origin(self, node: NodeSource, name: str) -> str:
        """The origin of a column, as far as the plan knows it."""
        plan = self.plan
        if plan is None or node.name not in plan.by_name:
            return ""
        qualifier, _, column = name.rpartition(".")
        for edge in plan.by_name[node.name].inputs:
            if edge.qualifier == qualifier and (found := lineage.of_column(plan, edge.node, column)) is not None:
                sources = ", ".join(f"`{source}.{read}`" for source, read in found.sources())
                return f"\n\nfrom {sources}" if sources else ""
        return ""

    def _of_node(self, node: NodeSource) -> str:
        rows = [f"| `{name}` | {kind} |" for name, kind in self.given(node).items()]
        said = f"**{node.name}** — {node.kind}" + (f"\n\n{node.description}" if node.description else "")
        return said + ("\n\n| column | type |\n|---|---|\n" + "\n".join(rows) if rows else "")

    def _qualified(self, start: int, word: str) -> str:
        """A name in a program with the qualifier before it."""
        before = re.search(r"([A-Za-z_][A-Za-z0-9_]*)\.$", self.text[:start])
        return f"{before[1]}.{word}" if before else word

    def _referred(self, place: int) -> NodeSource | None:
        """The node whose name stands at a place: its own, an input's, or one that a rule refers to."""
        by_name = {node.name: node for node in self.nodes}
        for node in self.nodes:
            if _covers(node.span, place):
                return node
            for reference in node.inputs:
                if _covers(reference.span, place):
                    return by_name.get(reference.node)
            for rule in references_of(node):
                for named in _texts(rule, "source"):
                    if _covers(named.span, place):
                        return by_name.get(_named(named))
        return None

    def definition(self, place: int) -> Span | None:
        """The definition of a name: a node by its name, a column by the statement or schema that creates it."""
        program = self.program_at(place)
        if program is None:
            referred = self._referred(place)
            return referred.span if referred is not None else None
        start, end = self.word_at(place)
        word = self.text[start:end]
        qualifier, _, column = self._qualified(start, word).rpartition(".")
        if word in program.given:
            return None
        if program.is_after:
            return self._made(program.node.name, word, set())
        if not qualifier and (own := _defined_in(program, word, before=place)) is not None:
            return own
        for reference in program.node.inputs:
            if reference.qualifier in ("", qualifier) and (found := self._made(reference.node, column, set())):
                return found
        return None

    def _made(self, name: str, column: str, seen: set[str]) -> Span | None:
        """The place that creates a column of a node, in this node or upstream of it."""
        node = next((one for one in self.nodes if one.name == name), None)
        if node is None or name in seen:
            return None
        seen.add(name)
        for program in programs_of(node):
            if (found := _defined_in(program, column)) is not None:
                return found
        if (own := declared(node, column)) is not None:
            return own
        for reference in node.inputs:
            if (found := self._made(reference.node, column, seen)) is not None:
                return found
        return None

    def name_places(self, place: int) -> tuple[str, list[Edit]] | None:
        """A node's name and all places where it is written, each as an edit that changes nothing; None elsewhere."""
        node = self._referred(place)
        if node is None or self.program_at(place) is not None:
            return None
        spans = [node.span] + [
            reference.span for other in self.nodes for reference in other.inputs if reference.node == node.name
        ]
        spans += [
            named.span
            for other in self.nodes
            if isinstance(other.body, Mapping) and isinstance(window := other.body.get("analytic_window"), Mapping)
            for named in _texts(window, "source")
            if named.text == node.name
        ]
        referring = (rule for other in self.nodes for rule in references_of(other))
        spans += [named.span for rule in referring for named in _texts(rule, "source") if _named(named) == node.name]
        edits = []
        for span in spans:
            at = self.text.find(node.name, span.start, span.end)
            if at >= 0:
                edits.append(Edit(at, at + len(node.name), node.name))
        return node.name, edits

    def symbols(self) -> Iterator[tuple[NodeSource, Span, Span]]:
        """The nodes with their whole texts and the places of their names."""
        for node in self.nodes:
            yield node, node.tree.span, node.span

    def remedies(self, diagnostic: Diagnostic) -> list[Remedy]:
        """The replacements that a diagnostic proposes for its range."""
        if diagnostic.span is None:
            return []
        said = f"{diagnostic.message}\n{diagnostic.help or ''}"
        start, end = diagnostic.span.start, diagnostic.span.end
        found = []
        for proposed in dict.fromkeys(_PROPOSED.findall(said)):
            # The span may hold more than the name: the message quotes the wrong word.
            wrong = [word for word in re.findall(r"[`'‘]([^`'’]+)[`'’]", diagnostic.message) if word != proposed]
            at = next(((begin, len(word)) for word in wrong if (begin := self.text.find(word, start, end)) >= 0), None)
            begin, size = at if at is not None else (start, end - start)
            found.append(Remedy(f"Change to `{proposed}`", Edit(begin, begin + size, proposed)))
        return found

    def formatted(self) -> list[Edit]:
        """The edits that give every program in a literal block (`|`) the canonical layout."""
        programs = [program for node in self.nodes for program in programs_of(node)]
        # A program with filled-in variables cannot be written back.
        blocks = [one for one in programs if one.scalar.style == "|" and not one.scalar.edits]
        return [edit for one in blocks if (edit := self._laid_out(one)) is not None]

    def _laid_out(self, program: Program) -> Edit | None:
        value = program.text.value
        with tree_walk.room():
            parsed = parser.parse(value)
            if parsed.problems:
                return None
            canonical = formatter.format_program(value, parsed.tree)
        if canonical == value or not value.strip():
            return None
        start = program.text.span(0, 1).start
        begin = self.text.rfind("\n", 0, start) + 1
        indent = self.text[begin:start]
        if indent.strip():
            return None
        end = program.text.span(len(value.rstrip()) - 1, len(value.rstrip())).end
        lines = [f"{indent}{line}" if line else "" for line in canonical.rstrip("\n").split("\n")]
        return Edit(begin, end, "\n".join(lines))


def completions(now: Analysis, last: Analysis, place: int) -> list[Proposal]:
    """The completions at a place.

    Args:
        now: the text as it is; it may be half a line.
        last: the last text that could be read.
        place: where something is being written.
    """
    line_start = now.text.rfind("\n", 0, place) + 1
    written = now.text[line_start:place]
    if re.search(r"\b(input|inputs|[a-z_]+):\s*\[?[^\]#]*$", written) and _names_a_node(now.text, line_start, written):
        return [Proposal(port, "node") for port in last.ports()]
    if re.search(r"^\s*(-\s*)?\{?\s*type:\s*\w*$", written) and _is_of_node(written):
        return [Proposal(kind, "type") for kind in registry.node_types()]
    program = now.program_at(place)
    around = now
    if program is None and last is not now:
        around = last
        program = last.program_at(min(place, len(last.text)))
    if program is not None:
        return _in_program(around, last, program, written)
    node = now.node_at(place) or last.node_at(place)
    if node is not None and node.kind in _RULED and _in_validations(now.text, line_start, written):
        return [Proposal(kind, "key", documentation=rules.described(kind)) for kind in rules.KINDS]
    if node is not None and re.search(r"^\s+\w*$", written):
        return [Proposal(key, "key") for key in reader.allowed_keys(node.type.config)]
    return []


def _in_program(now: Analysis, last: Analysis, program: Program, written: str) -> list[Proposal]:
    node = program.node
    columns = now.seen(program) or next((last.seen(program) for one in last.nodes if one.name == node.name), {})
    if (dotted := re.search(r"([A-Za-z_][A-Za-z0-9_]*)\.\w*$", written)) is not None:
        own = {name.partition(".")[2]: kind for name, kind in columns.items() if name.startswith(f"{dotted[1]}.")}
        if own:
            return [Proposal(name, "column", kind) for name, kind in own.items()]
        if dotted[1] == "window" and "$window." in written:
            return [Proposal(one.name, "function", "", functions.prose(one.doc)) for one in declare.windows().values()]
    if re.search(r"\.\w*$", written):
        names = dict.fromkeys(one.name for one in declare.registry().values())
        return [
            Proposal(
                name, "method", functions.signature(functions.methods(name)[0]), _documented(functions.methods(name)[0])
            )
            for name in sorted(names)
        ]
    proposals = [Proposal(name, "column", kind) for name, kind in columns.items()]
    proposals += [Proposal(name, "variable") for name in _lets(program)]
    if "group_by" in reader.allowed_keys(node.type.config):
        proposals += [
            Proposal(name, "function", "", functions.prose(one.doc))
            for name, one in sorted(declare.aggregates().items())
        ]
    words = _STATEMENTS if not written.strip() or written.strip().isalpha() else _CONSTANTS
    return proposals + [Proposal(word, "keyword") for word in words]


def _names_a_node(text: str, line_start: int, written: str) -> bool:
    """Whether the user is writing the name of an input: on the line of `input:`, or in the mapping below it."""
    if re.search(r"\b(input|inputs):\s*[\[{]?[^\]}#]*$", written):
        return True
    indent = len(written) - len(written.lstrip())
    for line in reversed(text[:line_start].split("\n")[:-1]):
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        if depth < indent:
            return bool(re.match(r"\s*(input|inputs):\s*$", line))
    return False


def _is_of_node(written: str) -> bool:
    return bool(re.match(r"^\s*-\s*\{?\s*type:", written))


def programs_of(node: NodeSource) -> list[Program]:
    """The CXL texts of a node, from its keys with programs or conditions."""
    config = node.tree.get("config")
    if not isinstance(config, Mapping):
        return []
    found = [Program(node, one, one.located()) for key in ("cxl", "where") for one in _texts(config, key)]
    for key in ("conditions", "routes"):
        conditions = config.get(key)
        if isinstance(conditions, Mapping):
            texts = (_texts(conditions, branch) for branch in conditions.entries)
            found += [Program(node, one, one.located()) for several in texts for one in several]
    found += [Program(node, one, one.located()) for item in _items(config, "set") for one in _texts(item, "cxl")]
    for item in _items(config, "validations"):
        named = "field" in item.entries
        args = item.get("args")
        given = frozenset(args.entries) if isinstance(args, Mapping) else frozenset()
        found += [
            Program(node, one, one.located(), is_after=True, given=given)
            for one in _texts(item, "check")
            if not (named and one.text.strip() in ("not_null", "not_empty"))
        ]
    for item in _items(config, "log"):
        found += [Program(node, one, one.located(), is_after=True) for one in _texts(item, "condition")]
    return found


def _items(config: Mapping, key: str) -> list[Mapping]:
    listed = config.get(key)
    return [one for one in listed.items if isinstance(one, Mapping)] if isinstance(listed, Sequence) else []


def references_of(node: NodeSource) -> list[Mapping]:
    """The rules of a source or output that refer to another node."""
    if not isinstance(node.body, Mapping) or node.kind not in _RULED:
        return []
    found = (item.get("references") for item in _items(node.body, "validations"))
    return [one for one in found if isinstance(one, Mapping)]


def _named(source: Scalar) -> str:
    """The node that a rule refers to, without its branch."""
    return source.text.partition(".")[0]


def _has_rules(node: NodeSource) -> bool:
    """Whether rules on all records may be written under the node's `validations`."""
    return isinstance(node.body, Mapping) and "validations" in node.body.entries and node.kind in _RULED


def _in_validations(text: str, line_start: int, written: str) -> bool:
    """Whether an entry of `validations` begins where something is being written."""
    if re.search(r"\bvalidations:\s*\[(?:[^\]]*\},)?\s*\{?\s*\w*$", written):
        return True
    entry = re.fullmatch(r"(\s*)-\s*\{?\s*\w*", written)
    if entry is None:
        return False
    for line in reversed(text[:line_start].splitlines()):
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        if bare and (indent < len(entry[1]) or (indent == len(entry[1]) and not bare.startswith("-"))):
            return bare == "validations:"
    return False


def _texts(config: Mapping, key: str) -> list[Scalar]:
    """The value of a key, if it is a text."""
    return [one] if isinstance(one := config.get(key), Scalar) else []


def statements_of(program: Program) -> tuple[ast.Statement, ...]:
    """The statements of a program, as far as they can be read."""
    with tree_walk.room():
        return parser.parse(program.text.value).tree.statements


def _defined_in(program: Program, name: str, before: int | None = None) -> Span | None:
    """The last statement of a program, before a place, that defines a name: the place of the name there."""
    found = None
    for one in _defining(statements_of(program), program, before):
        if one.name == name:
            span = program.text.span(*one.name_place)
            if before is None or span.start <= before:
                found = span
    return found


def _defining(
    statements: tuple[ast.Statement, ...], program: Program, before: int | None
) -> Iterator[ast.Emit | ast.Let | ast.EmitEach]:
    """The statements that define names, in order, without blocks that end before the place."""
    for one in statements:
        if isinstance(one, ast.EmitEach):
            place = program.text.span(*one.place)
            if before is None or place.start <= before <= place.end:
                yield from [one] if before is not None and before >= program.text.span(*one.name_place).start else []
                yield from _defining(one.body, program, before)
        elif isinstance(one, ast.Emit | ast.Let):
            yield one


def _lets(program: Program) -> list[str]:
    """The names that a program defines; it may be half written."""
    return list(dict.fromkeys(_DEFINES.findall(program.text.value)))


def declared(node: NodeSource, column: str) -> Span | None:
    """The place in a schema that declares a column."""
    config = node.tree.get("config")
    schema: Node | None = config.get("schema") if isinstance(config, Mapping) else None
    if isinstance(schema, Mapping) and column in schema.entries:
        return schema.entries[column].key
    if isinstance(schema, Sequence):
        for item in schema.items:
            name = item.get("name") if isinstance(item, Mapping) else None
            if isinstance(name, Scalar) and name.text == column:
                return name.span
    return None


def _branches(node: NodeSource) -> list[str]:
    config = node.tree.get("config")
    conditions = config.get("conditions") if isinstance(config, Mapping) else None
    if not isinstance(config, Mapping) or not isinstance(conditions, Mapping):
        return []
    default = config.get("default")
    return list(dict.fromkeys([*conditions.entries, *([default.text] if isinstance(default, Scalar) else [])]))


def _covers(span: Span, place: int) -> bool:
    return span.start <= place <= span.end


def _documented(one: declare.Builtin) -> str:
    examples = functions.example_lines(one)
    return f"`{functions.signature(one)}`\n\n{one.prose}" + (f"\n\n```\n{examples}\n```" if examples else "")
