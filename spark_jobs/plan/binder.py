"""Binding: node by node in the direction of the records, configurations become steps and rows become known."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import limits
from spark_jobs.contract import MERGED
from spark_jobs.cxl import compile as cxl_compile
from spark_jobs.cxl import types
from spark_jobs.cxl.checking.scope import Mode, Scope
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes import model, program_reads
from spark_jobs.nodes.binding import Bound, Feed, Flow, Wiring
from spark_jobs.plan import paths, pending, ports
from spark_jobs.plan.expanding.expand import Expansion
from spark_jobs.plan.reading import reader
from spark_jobs.plan.reading.yaml_tree import Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.cxl.checking.modules import Library
    from spark_jobs.diagnostics.diagnostic import Diagnostic, Diagnostics
    from spark_jobs.diagnostics.source import Span, Text
    from spark_jobs.plan.expanding.channels import Channel
    from spark_jobs.plan.expanding.variables import Variables
    from spark_jobs.plan.graph import Graph
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.stores.location import FilePath


@dataclass(frozen=True)
class Compiled:
    """A checked program with its text, for messages about the fields that it reads."""

    program: Any
    text: Text


@dataclass
class Bindings:
    """The state of binding: flows by node and port, results, and every checked program by node."""

    graph: Graph
    base_dir: FilePath
    library: Library
    variables: Variables
    date_formats: tuple[str, ...]
    date_header: str
    include_provenance: bool
    #: Values of path tokens that are known at plan time.
    tokens: Mapping[str, str]
    found: Diagnostics
    flows: dict[str, Mapping[str, Flow]] = field(default_factory=dict)
    bound: dict[str, Bound] = field(default_factory=dict)
    programs: dict[str, list[Compiled]] = field(default_factory=dict)
    feeds: dict[str, tuple[Feed, ...]] = field(default_factory=dict)
    #: By node, the sources of each name that `$source.<name>.…` can have there.
    streams: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)
    #: The paths of the system values that programs read.
    read: set[str] = field(default_factory=set)
    channel: Channel | None = None
    expansion: Expansion = field(default_factory=Expansion)
    #: Composition ports whose columns have been compared with their bound nodes, and whether they fit.
    checked_ports: dict[str, bool] = field(default_factory=dict)
    #: True if the workspace has the word `decimal` mean the exact type.
    has_exact_decimals: bool = False

    @cached_property
    def written(self) -> frozenset[str]:
        """The paths of the variables that state nodes set."""
        configs = (node.config for node in self.graph.nodes.values())
        return frozenset(path for config in configs if config is not None for path in config.sets)


@dataclass
class NodeScope:
    """The binding of one node; implements `nodes.binding.BindScope`."""

    node: NodeSource
    bindings: Bindings
    feeds: tuple[Feed, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """The names that the node gives its inputs."""
        return tuple(reference.qualifier for reference in self.node.inputs)

    @property
    def date_formats(self) -> tuple[str, ...]:
        """`pipeline.date_formats`."""
        return self.bindings.date_formats

    @property
    def date_header(self) -> str:
        """The names of `pipeline.date_locale`."""
        return self.bindings.date_header

    @property
    def include_provenance(self) -> bool:
        """`pipeline.include_provenance`."""
        return self.bindings.include_provenance

    def span(self, *path: str | int) -> Span:
        """The place of a value, or of the nearest key."""
        return reader.value_span(self.node.tree, path)

    def key_span(self, *path: str | int) -> Span:
        """The place of a key."""
        return reader.locate(self.node.tree, path)[1]

    def text(self, *path: str | int) -> Text:
        """A scalar's text with the places of its characters."""
        found, _, _ = reader.locate(self.node.tree, path)
        if not isinstance(found, Scalar):
            raise AssertionError(f"{'.'.join(map(str, path))} of `{self.name}` is no scalar")
        return found.located()

    def add(self, diagnostic: Diagnostic) -> None:
        """Note a problem."""
        self.bindings.found.add(diagnostic)

    def compile(self, *path: str | int, mode: Mode, flow: Flow | None = None, **scope_fields: Any) -> Any:
        """The checked program at a path, or None."""
        return self.compile_text(self.text(*path), mode=mode, flow=flow, **scope_fields)

    def compile_text(self, text: Text, *, mode: Mode, flow: Flow | None = None, **scope_fields: Any) -> Any:
        """The checked program of a text, or None."""
        flow = flow or Flow(schema=Scope().row)
        variables = {
            namespace: self.variables(namespace) for namespace in ("vars", "pipeline", "source", "record", "config")
        }
        streams = self._streams() if "$source." in text.value else {}
        self.bindings.streams.setdefault(self.name, {}).update(streams)
        scope = Scope(
            mode=mode,
            row=flow.schema,
            variables=variables,
            documents=flow.documents,
            grouped_by=flow.grouped_by,
            metas=flow.metas,
            library=self.bindings.library,
            streams=streams.keys(),
            date_header=self.bindings.date_header,
            **scope_fields,
        )
        compiled = cxl_compile.compile_program(text, scope, self.name)
        sealed = self._sealed_reads(text)
        for diagnostic in (*sealed, *compiled.diagnostics):
            # A sealed variable is unknown to the checker as well; once is enough.
            if diagnostic in sealed or not any(_same_place(diagnostic, one) for one in sealed):
                self.add(diagnostic)
        if compiled.program is None or sealed:
            return None
        parts: list[Any] = [getattr(compiled.program, name, compiled.program) for name in ("before", "after")]
        self.bindings.read.update(*(part.system for part in parts))
        constants = {**self._constants(), **self._of_inputs(streams)}
        program = program_reads.with_constants(compiled.program, constants) if constants else compiled.program
        self.bindings.programs.setdefault(self.name, []).append(Compiled(program, text))
        return program

    def _constants(self) -> dict[str, Any]:
        """Values that hold for all records of the node, by path: parameters, a channel's source defaults."""
        instance = self.bindings.expansion.instances.get(self.node.instance)
        constants = {f"config.{name}": p.value for name, p in instance.parameters.items()} if instance else {}
        sources = {source for feed in self.feeds for source in feed.flow.sources}
        for (source, name), value in self.bindings.variables.per_source.items():
            # Bare source variables are refused where several sources meet (E172), so one source decides.
            if sources == {source} and not self._is_written("source", name):
                constants[f"source.{name}"] = value
        return constants

    def _streams(self) -> dict[str, frozenset[str]]:
        """The sources of each name that `$source.<name>.…` can have: inputs of merges and combines, and sources."""
        graph, mine = self.bindings.graph, "".join(f"{call}/" for call in self.node.instance)
        found: dict[str, frozenset[str]] = {}
        for name in (self.name, *graph.ancestors(self.name)):
            node = graph.nodes[name]
            feeds = self.feeds if name == self.name else self.bindings.feeds.get(name, ())
            labels: list[tuple[str, tuple[str, ...]]] = []
            if node.is_source:
                labels = [(name, (name,))]
            elif node.type.wiring in (Wiring.LIST, Wiring.NAMED):
                # In another file its nodes are known by their whole names alone.
                is_here = node.instance == self.node.instance
                names = (feed.qualifier or (feed.written if is_here else feed.node) for feed in feeds)
                labels = [(name, feed.flow.sources) for name, feed in zip(names, feeds, strict=True)]
            for label, sources in labels:
                local = label.removeprefix(mine)
                found[local] = found.get(local, frozenset()).union(sources)
        return found

    def _of_inputs(self, streams: Mapping[str, frozenset[str]]) -> dict[str, Any]:
        """The values of variables of single inputs, as far as all sources of the input have the same."""
        values: dict[str, Any] = {}
        declared = self.bindings.variables.declared["source"]
        for label, sources in streams.items():
            for name, variable in declared.items():
                given = {self.bindings.variables.per_source.get((source, name), variable.default) for source in sources}
                if len(given) == 1 and not self._is_written("source", name):
                    values[f"source.{label}.{name}"] = given.pop()
        return values

    def _is_written(self, namespace: str, name: str) -> bool:
        """True if a state node of the pipeline sets a variable."""
        return f"{namespace}.{name}" in self.bindings.written

    def _sealed_reads(self, text: Text) -> list[Diagnostic]:
        """Reads of the pipeline's variables in a composition's body that its signature does not expose."""
        instance = self.bindings.expansion.instances.get(self.node.instance)
        if instance is None:
            return []
        found = []
        for namespace in ("pipeline", "source", "record"):
            sealed = set(self.bindings.variables.declared[namespace]) - instance.exposes(namespace)
            for match in re.finditer(rf"\${namespace}\.(\w+)", text.value):
                if match.group(1) in sealed:
                    message = f"body node '{self.name}' reads {match.group()}, which the composition does not expose"
                    help_text = f"declare it under `_compose.scoped_vars.{namespace}`"
                    found.append(codes.E173.at(text.span(*match.span()), message, help=help_text))
        return found

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of the node's file by their names there."""
        prefix = "".join(f"{call}/" for call in self.node.instance)
        nodes = self.bindings.graph.nodes.values()
        mine = [node for node in nodes if node.is_source and node.instance == self.node.instance]
        return tuple(node.name.removeprefix(prefix) for node in mine)

    def source_flow(self, name: str) -> Flow | None:
        """The flow of a source; None if there is no such source."""
        if name not in self.sources:
            return None
        return self.bindings.flows.get("/".join((*self.node.instance, name)), {}).get("")

    def node_flow(self, name: str) -> tuple[str, Flow] | None:
        """The whole name of a node of the same file, or of its port, and its flow; None if there is no such node."""
        local, dot, port = name.partition(".")
        node = "/".join((*self.node.instance, local))
        flow = self.bindings.flows.get(node, {}).get(port)
        return None if flow is None else (f"{node}{dot}{port}", flow)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of the node's file whose records go on, by their names there: with the port where there is one."""
        prefix = "".join(f"{call}/" for call in self.node.instance)
        return tuple(
            f"{name.removeprefix(prefix)}.{port}" if port else name.removeprefix(prefix)
            for name, flows in self.bindings.flows.items()
            if self.bindings.graph.nodes[name].instance == self.node.instance
            for port in flows
        )

    def collects(self, node: str) -> bool:
        """True if a node is a combine that gathers its matches in arrays."""
        target = self.bindings.graph.nodes.get(node)
        return target is not None and target.config is not None and target.config.collects

    def has_watermark(self, source: str) -> bool:
        """True if a source declares the event time of its records."""
        return getattr(self.bindings.bound[source].step, "watermark_column", None) is not None

    def variables(self, namespace: str) -> Mapping[str, types.Type]:
        """The declared variables of a namespace."""
        instance = self.bindings.expansion.instances.get(self.node.instance)
        if namespace == "config":
            return instance.types() if instance else {}
        # A variable that a state node sets may become null.
        declared = self.bindings.variables.types(namespace).items()
        known = {name: kind.or_null() if self._is_written(namespace, name) else kind for name, kind in declared}
        if instance is None or namespace == "vars":
            return known
        return {name: kind for name, kind in known.items() if name in instance.exposes(namespace)}

    def part(self, *path: str | int) -> Any:
        """The model of a part."""
        return self.node.parts.get(path)

    def output_path(self, template: str, *path: str | int) -> tuple[str, bool]:
        """An output's path with the tokens filled in that are known at plan time, and whether some are left."""
        flow = self.feeds[0].flow if self.feeds else None
        files = {} if flow and flow.files_of else dict.fromkeys(paths.FAN_OUT_TOKENS, MERGED)
        try:
            rendered = paths.fill(template, {**self.bindings.tokens, **self._source_names(template), **files})
        except paths.TemplateError as error:
            self.add(codes.E014.at(self.span(*path), f'output "{self.name}": {error}'))
            return template, False
        return rendered, bool(paths.tokens(rendered) & paths.FAN_OUT_TOKENS)

    def _source_names(self, template: str) -> dict[str, str]:
        """Values of `{source_name}`: the stem of the literal path of the source that the records come from."""
        wanted = [t for t in paths.parse(template) if isinstance(t, paths.Token) and t.name == "source_name"]
        sources = self.feeds[0].flow.sources if self.feeds else ()
        steps = {name: self.bindings.bound[name].step for name in sources}
        labels = {getattr(step, "label", None) or name: name for name, step in steps.items()}
        values = {}
        for token in wanted:
            key = f"source_name:{token.argument}" if token.argument else "source_name"
            known = {**{name: name for name in sources}, **labels}
            listed = ", ".join(sources)
            if token.argument and token.argument not in known:
                missing = f'{{{key}}} references "{token.argument}", which is not a Source ancestor'
                message = f"{missing}; ancestors are: [{listed}]"
                raise paths.TemplateError(message)
            if not token.argument and len(sources) != 1:
                message = (
                    f"{{source_name}} is ambiguous — output traces back to {len(sources)} sources [{listed}]; use "
                    "{source_name:NODE} to disambiguate"
                )
                raise paths.TemplateError(message)
            step: Any = steps[known[token.argument] if token.argument else sources[0]]
            values[key] = Path(step.match.path).stem if step.match.path else ""
            problem = paths.value_problem(values[key]) if values[key] else None
            if problem:
                raise paths.TemplateError(f"{{{key}}} cannot stand in a path: {problem}")
        return values

    def pending(self, what: str, *path: str | int) -> Diagnostic:
        """The diagnostic that says that this node does not run yet."""
        return pending.not_yet(f"{self.node.kind} '{self.name}'", what, self.span(*path))


def _same_place(left: Diagnostic, right: Diagnostic) -> bool:
    return left.span is not None and right.span is not None and left.span.line == right.span.line


def bind(bindings: Bindings) -> None:
    """Bind every node of the graph; nodes that cannot be bound are reported, and their consumers skipped."""
    with model.exact_decimals(bindings.has_exact_decimals):
        _bind(bindings)


def _bind(bindings: Bindings) -> None:
    graph = bindings.graph
    columns = 0
    for name in graph.order:
        node = graph.nodes[name]
        if columns > limits.NODE_COLUMNS:
            message = f"the nodes before '{name}' have more than {limits.NODE_COLUMNS} columns together"
            bindings.found.add(codes.E017.at(node.span, message, help="carry fewer columns, or split the pipeline"))
            return
        feeds = _feeds(node, bindings)
        if feeds is None:
            continue
        bindings.feeds[name] = feeds
        # Editors ask for the nodes of a file with errors that can still be bound.
        if node.config is None or not (feeds or node.is_source):
            continue
        result = node.type.bind(node.config, NodeScope(node, bindings, feeds))
        if result is not None:
            bindings.bound[name] = result
            bindings.flows[name] = result.outputs
            columns += sum(len(flow.schema) for flow in result.outputs.values())


def _feeds(node: NodeSource, bindings: Bindings) -> tuple[Feed, ...] | None:
    feeds = []
    for reference in bindings.graph.inputs[node.name]:
        flows = bindings.flows.get(reference.node)
        if flows is None:
            return None
        port = ports.of(reference, node.name, tuple(flows))
        if port is None:
            bindings.found.add(ports.unknown(reference, node.name, tuple(flows)))
            return None
        if not all(_port_fits(need, reference.node, flows[port], bindings) for need in reference.needs):
            return None
        written = reference.written or reference.node
        feeds.append(Feed(reference.node, port, reference.qualifier, reference.span, flows[port], written))
    return tuple(feeds)


def _port_fits(key: str, upstream: str, flow: Flow, bindings: Bindings) -> bool:
    """True if a row has the columns that a composition's port declares; a missing column is reported once."""
    if key in bindings.checked_ports:
        return bindings.checked_ports[key]
    need = bindings.expansion.needs[key]
    fits = True
    for column in need.columns:
        given = flow.schema.get(column.name)
        where = f'composition node "{need.call}": input port "{need.port}"'
        if given is None:
            fits = False
            message = f'{where} requires column "{column.name}" but upstream "{upstream}" does not provide it'
            known = [one.name for one in flow.schema.user_columns]
            bindings.found.add(codes.E102.at(need.span, message, help=nearest.hint(column.name, known)))
        elif types.unify(column.type.non_null(), given.type.non_null()) is None:
            fits = False
            declared = f'{where} declares column "{column.name}" as {column.type}'
            message = f'{declared} but upstream "{upstream}" provides {given.type}'
            bindings.found.add(codes.E102.at(need.span, message))
    bindings.checked_ports[key] = fits
    return fits
