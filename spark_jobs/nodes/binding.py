"""The interface between node types and the planner for binding: scopes, inputs, flows.

A node's `config.py` has a `NODE`: its model, how it is wired, how schemas flow through it, and which columns it reads.
The planner supplies the context as a `BindScope`; nodes never see YAML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from spark_jobs.cxl import types
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.nodes.records import columns
from spark_jobs.nodes.terms.required_columns import RequiredColumns

if TYPE_CHECKING:
    from spark_jobs.cxl import typed
    from spark_jobs.cxl.checking import scope
    from spark_jobs.diagnostics.diagnostic import Code, Diagnostic
    from spark_jobs.diagnostics.source import Span, Text
    from spark_jobs.nodes.model import Config, NodeConfig
    from spark_jobs.nodes.node import Step
    from spark_jobs.nodes.terms.description import Description


#: The path of a value inside a node: `("config", "schema", 0, "type")`.
Path = tuple[str | int, ...]


class Wiring(StrEnum):
    """The forms in which a node names its inputs."""

    NONE = "none"
    ONE = "one"
    LIST = "list"
    NAMED = "named"
    CALL = "call"


@dataclass(frozen=True)
class Flow:
    """The records that leave a port of a node, as known while steps are bound.

    Args:
        schema: the columns. Engine columns (`$ck.*`, `$widened`, `$meta.*`) stand where an output would write them.
        emitted: the names that an output with `include_unmapped: false` keeps; None for all.
        sources: the sources that records of this port come from.
        documents: envelope sections: section to field to type.
        joined: the nearest merge or combine upstream, after which bare `$source` variables are ambiguous (E172).
        ordered_by: the declared order of the records, as far as it still holds.
        can_name_undeclared: whether combines and `group_by` may name undeclared columns: all sources upstream say
            `on_unmapped: auto_widen`.
        files_of: the source whose files the records belong to; None downstream of a merge or an aggregate.
        grouped_by: the aggregate that made these rows, or some of them: such rows belong to no document.
        on_unmapped: the sources' treatment of undeclared columns; downstream of a combine, the driver's.

    Sources make flows. All other nodes derive theirs by one of the methods below, which define how each field changes.
    """

    schema: Schema
    emitted: frozenset[str] | None = None
    sources: tuple[str, ...] = ()
    documents: Mapping[str, Mapping[str, types.Type]] = field(default_factory=dict)
    joined: str | None = None
    ordered_by: tuple[str, ...] = ()
    files_of: str | None = None
    can_name_undeclared: bool = False
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN
    grouped_by: str | None = None

    def with_row(self, row: Schema, emitted: frozenset[str] | None = None, *, in_order: bool = True) -> Flow:
        """The flow with other columns. With `in_order`, the columns that records are sorted by keep their values."""
        return replace(self, schema=row, emitted=emitted, ordered_by=self.ordered_by if in_order else ())

    def grouped(self, row: Schema, ordered_by: tuple[str, ...], aggregate: str) -> Flow:
        """The flow of groups of the records, which belong to no file and no document."""
        return replace(
            self,
            schema=row,
            emitted=None,
            documents={},
            ordered_by=ordered_by,
            files_of=None,
            can_name_undeclared=False,
            grouped_by=aggregate,
        )

    def merged(self, others: Iterable[Flow], row: Schema, merge: str) -> Flow:
        """The flow downstream of a merge of this and other flows. Envelope sections have the fields of all."""
        flows = (self, *others)
        documents: dict[str, dict[str, types.Type]] = {}
        for flow in flows:
            for name, section in flow.documents.items():
                known = documents.setdefault(name, {})
                for key, kind in section.items():
                    known[key] = types.unify(known[key], kind) or types.ANY if key in known else kind
        is_one_order = all(flow.ordered_by == self.ordered_by for flow in flows)
        return replace(
            self,
            schema=row,
            emitted=None,
            sources=_sources(flows),
            documents=documents,
            joined=merge,
            ordered_by=self.ordered_by if is_one_order else (),
            files_of=None,
            can_name_undeclared=all(flow.can_name_undeclared for flow in flows),
            grouped_by=next((flow.grouped_by for flow in flows if flow.grouped_by), None),
        )

    def combined(self, flows: Iterable[Flow], row: Schema, combine: str) -> Flow:
        """The flow downstream of a combine of `flows` whose driver is this one."""
        return replace(self, schema=row, emitted=None, sources=_sources(flows), joined=combine, ordered_by=())

    @property
    def has_undeclared(self) -> bool:
        """True if records carry undeclared columns."""
        return columns.UNDECLARED_MAP in self.schema

    @property
    def metas(self) -> dict[str, types.Type]:
        """The metadata keys that records carry."""
        return {columns.META.key(c.name): c.type for c in self.schema.engine_columns if c.name in columns.META}

    @property
    def correlation(self) -> tuple[str, ...]:
        """The correlation key fields that records carry, including `aggregate.<name>` entries."""
        return columns.CORRELATION.keys(column.name for column in self.schema.engine_columns)

    @property
    def key(self) -> tuple[str, ...]:
        """The correlation key fields that belong to sources, which are the ones a user can name."""
        return tuple(field for field in self.correlation if columns.numbered(field) is None)


def _sources(flows: Iterable[Flow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for flow in flows for name in flow.sources))


@dataclass(frozen=True)
class Feed:
    """An input as its consumer sees it. `span` is where the consumer names it, `written` the name in the YAML."""

    node: str
    port: str
    qualifier: str
    span: Span
    flow: Flow
    written: str


@dataclass(frozen=True)
class ColumnOrigin:
    """The key of a source that declares or drops a column, if it is not `schema:`; for `explain`."""

    column: str
    key: str
    span: Span
    dropped: bool = False


@dataclass(frozen=True)
class Bound:
    """A node's step and the flow of each of its ports.

    `pending` says why the node cannot run yet, `origins` which key of a source declares a column.
    """

    step: Step | None
    outputs: Mapping[str, Flow]
    pending: Diagnostic | None = None
    origins: tuple[ColumnOrigin, ...] = ()


class BindScope(Protocol):
    """The planner's interface for a node that is being bound."""

    @property
    def name(self) -> str:
        """The node's name."""

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The inputs in declaration order."""

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """The names that the node gives its inputs, in declaration order. They are known before inputs are bound."""

    @property
    def date_formats(self) -> tuple[str, ...]:
        """The date formats of the pipeline (`pipeline.date_formats`), tried in order."""

    @property
    def date_header(self) -> str:
        """The names of `pipeline.date_locale` in the form of a prefix of date formats; empty for English."""

    @property
    def include_provenance(self) -> bool:
        """True if all records carry their origin (`pipeline.include_provenance`)."""

    def span(self, *path: str | int) -> Span:
        """The place of a value, or of the nearest key if it is not written."""

    def key_span(self, *path: str | int) -> Span:
        """The place of a key."""

    def text(self, *path: str | int) -> Text:
        """A scalar's text with the places of its characters."""

    def add(self, diagnostic: Diagnostic) -> None:
        """Report a problem."""

    def compile(self, *path: str | int, mode: scope.Mode, flow: Flow | None = None, **scope_fields: Any) -> Any:
        """The checked CXL program at a path; None if it does not compile, which is reported.

        `flow` provides the row for bare names. `scope_fields` are further fields of the program's `Scope`.
        """

    def compile_text(self, text: Text, *, mode: scope.Mode, flow: Flow | None = None, **scope_fields: Any) -> Any:
        """Compile a text that is given, as a program of the node."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that the node may name: the sources of its file. The body of a composition sees only its own."""

    def source_flow(self, name: str) -> Flow | None:
        """The flow of a source; None if there is no such source."""

    def node_flow(self, name: str) -> tuple[str, Flow] | None:
        """The whole name of a node, or `node.port`, of the node's file, and its flow; None if there is no such node."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, and `node.port`, that `node_flow` knows so far."""

    def collects(self, node: str) -> bool:
        """True if a node is a combine that collects its matches in arrays."""

    def has_watermark(self, source: str) -> bool:
        """True if a source declares the event time of its records."""

    def variables(self, namespace: str) -> Mapping[str, types.Type]:
        """The declared variables of a namespace: `vars`, `pipeline`, `source`, `record` or `config`."""

    def part(self, *path: str | int) -> Any:
        """The model of a part (see `NodeType.parts`); None if the user left it out."""

    def output_path(self, template: str, *path: str | int) -> tuple[str, bool]:
        """Check an output's path template and fill in the tokens that are known at plan time.

        Also returns True if tokens for the input file are left.
        """

    def pending(self, what: str, *path: str | int) -> Diagnostic:
        """The diagnostic that says that this node binds but does not run yet."""


Reads = Callable[[Any, RequiredColumns], tuple[RequiredColumns, ...]]


@dataclass(frozen=True)
class NodeType:
    """A kind of node.

    Args:
        kind: the value of `type:`.
        wiring: how inputs are named.
        config: the model of `config:`.
        bind: makes a step from a valid configuration; None after an error that it reported.
        reads: the columns that a step reads of its inputs, given the columns required of its outputs; one value for
            all inputs, or one for each.
        description: the description of the steps; None for calls, which leave no step in a plan.
        needs_config: `config:` is mandatory.
        check: reports mistakes that do not depend on the inputs. It runs for every node before any is bound.
        spellings: other accepted names of keys of `config:`, each with the usual one (`routes` for `conditions`).
        is_end: the node is useful even if no node reads from it.
        parts: models of values whose shape depends on other values, by their path below `config:`; takes the plain
            values of `config:`.
    """

    kind: str
    wiring: Wiring
    config: type[NodeConfig]
    bind: Callable[[Any, BindScope], Bound | None]
    reads: Reads
    description: Description | None
    needs_config: bool = True
    check: Callable[[Any, BindScope], None] | None = None
    spellings: Mapping[str, str] = field(default_factory=dict)
    parts: Callable[[Mapping[str, Any]], Mapping[Path, type[Config]]] | None = None
    is_end: bool = False

    @property
    def article(self) -> str:
        """The article that messages put before the kind."""
        return "an" if self.kind[0] in "aeiou" else "a"


def passes_through(step: Any, wanted: RequiredColumns) -> tuple[RequiredColumns, ...]:
    """The required columns of a node that passes its records through."""
    return (wanted,)


def emitted_schema(base: Schema, program: typed.Program, origin: str) -> Schema:
    """The columns after a program: emits replace or follow input columns, and metadata comes last."""
    emits = [Column(name, kind, origin) for name, kind in program.emits]
    metas = [Column(columns.META.of(key), kind, origin) for key, kind in program.metas]
    return base.with_columns(*emits, *metas)


def report(scope: BindScope, code: Code, message: str, *path: str | int, help: str | None = None) -> None:
    """Report a problem at a path of the node."""
    scope.add(code.at(scope.span(*path), message, help=help))


def plain(value: Any) -> Any:
    """A model or container as nested tuples of (key, value), which pickle without pydantic."""
    if hasattr(value, "model_fields_set"):
        value = {key: item for key, item in value if item is not None}
    match value:
        case dict():
            return tuple((key, plain(item)) for key, item in value.items())
        case list() | tuple():
            return tuple(plain(item) for item in value)
        case StrEnum():
            return str(value)
        case _:
            return value
