"""Compositions expanded in place: calls become the nodes of their bodies, with their own names and spans.

A body node `n` of the call `c` becomes `c/n`. References to the call's ports become references to body nodes,
references in the body to input ports become references to the nodes that the call binds to them. The call itself
disappears.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_jobs import limits
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.disk import small_files
from spark_jobs.plan import paths
from spark_jobs.plan.expanding import calls, composition, parameters
from spark_jobs.plan.reading import interpolation, reader
from spark_jobs.plan.reading import nodes as written
from spark_jobs.plan.reading.wiring import Reference
from spark_jobs.plan.reading.yaml_tree import Scalar
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.cxl import types
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.nodes.model import ColumnConfig
    from spark_jobs.plan.expanding.channels import Channel
    from spark_jobs.plan.expanding.composition import Composition
    from spark_jobs.plan.expanding.parameters import Parameter
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.stores.location import FilePath

#: Names of references that stand for a call's input port until the call is wired.
_PORT = "\0port:"


@dataclass(frozen=True)
class PortNeed:
    """The columns that a call's input port requires of the row bound to it."""

    call: str
    port: str
    columns: tuple[ColumnConfig, ...]
    span: Span


@dataclass
class Instance:
    """A call that has been expanded: its parameters, the variables it exposes, its signature."""

    path: tuple[str, ...]
    composition: Composition
    parameters: dict[str, Parameter]
    span: Span
    #: The flat node and port that the first output port stands for.
    gives: tuple[str, str] | None = None

    def types(self) -> dict[str, types.Type]:
        """The types of `$config` in the body."""
        return {name: p.type if p.value is not None else p.type.or_null() for name, p in self.parameters.items()}

    def exposes(self, namespace: str) -> frozenset[str]:
        """The scoped variables of a namespace that the body may read."""
        return frozenset(self.composition.signature.scoped_vars.get(namespace, ()))


@dataclass
class Expansion:
    """The result: flat nodes, and the instances by path; `unopened` are the calls whose nodes nobody knows."""

    nodes: list[NodeSource] = field(default_factory=list)
    instances: dict[tuple[str, ...], Instance] = field(default_factory=dict)
    needs: dict[str, PortNeed] = field(default_factory=dict)
    unopened: set[str] = field(default_factory=set)

    @property
    def sources(self) -> list[str]:
        """The names of all sources."""
        return [node.name for node in self.nodes if node.is_source]

    def may_have(self, name: str) -> bool:
        """True if a node that is not known may stand in a call that could not be opened."""
        return any(name.startswith(f"{call}/") for call in self.unopened)


@dataclass
class _Level:
    """The nodes of one file in one instance: what references in it may name."""

    path: tuple[str, ...]
    folder: FilePath
    names: frozenset[str]
    ports: Mapping[str, str]
    outer: frozenset[str]
    #: Each call's output ports: port to (flat node, port).
    exports: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    #: Each call's readers that its `outputs:` names, with their port.
    readers: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Each call's prefix: its alias, else its name.
    prefixes: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)


class Expander:
    """Expands the calls of a pipeline."""

    def __init__(
        self,
        base_dir: FilePath,
        variables: Mapping[str, str],
        channel: Channel | None,
        found: Diagnostics,
        *,
        allow_absolute: bool,
    ) -> None:
        self.base_dir = base_dir
        self.variables = variables
        self.channel = channel
        self.found = found
        self.allow_absolute = allow_absolute
        self.result = Expansion()
        self.bindings: dict[str, tuple[str, str] | None] = {}
        self.files: dict[FilePath, Composition | None] = {}
        self.is_full = False
        self.room = interpolation.CharacterBudget(limits.FILLED_CHARACTERS)
        #: Nodes and values of the bodies that have been expanded.
        self.nodes, self.values = 0, 0

    def run(self, nodes: list[NodeSource], folder: FilePath) -> Expansion:
        """The expansion of a pipeline's nodes."""
        if not any(node.is_call for node in nodes):
            self.result.nodes = list(nodes)
            return self.result
        self.nodes = len(nodes)
        level = _Level((), folder, frozenset(node.name for node in nodes), {}, frozenset())
        flat = self._level(nodes, level, ())
        self.result.nodes = [self._wired(node) for node in flat]
        return self.result

    def _level(self, nodes: list[NodeSource], level: _Level, stack: tuple[FilePath, ...]) -> list[NodeSource]:
        """The flat nodes of one file; references to ports are still placeholders."""
        bodies = {id(node): self._call(node, level, stack) for node in nodes if node.is_call}
        for name, exports in level.exports.items():
            level.readers[name] = calls.readers(name, nodes, exports, self.found)
        flat: list[NodeSource] = []
        for node in nodes:
            if node.is_call:
                self._bind_ports(node, level)
                flat += bodies[id(node)]
            else:
                flat.append(self._renamed(node, level))
        return flat

    def _call(self, node: NodeSource, level: _Level, stack: tuple[FilePath, ...]) -> list[NodeSource]:
        """The body of a call, as flat nodes."""
        called = self._open(node, level, stack)
        level.prefixes[node.name] = calls.prefix(node, self.found)
        path = (*level.path, level.prefixes[node.name])
        prefix = "/".join(path)
        if path in self.result.instances:
            place = reader.value_span(node.tree, ("alias",)) if "alias" in node.tree.entries else node.span
            message = f'the nodes of another call are called "{prefix}/…" already'
            self.found.add(codes.E106.at(place, message, help="give this call another name or alias"))
            called = None
        values: dict[str, Parameter] = {}
        body = None
        if called is not None:
            names = (prefix, "/".join((*level.path, node.name)))
            call = parameters.Call(node, called, names, self.channel, self._refused, self.found)
            values = call.parameters()
            body = self._body(node, called, {**call.resources(), **values})
        if called is None or body is None:
            level.broken.add(node.name)
            self.result.unopened.add(prefix)
            return []
        self.result.instances[path] = Instance(path, called, values, node.span)
        ports = {port: f"{_PORT}{prefix}:{port}" for port in called.signature.inputs}
        for port, need in called.signature.inputs.items():
            span = reader.value_span(node.tree, ("inputs", port))
            self.result.needs[ports[port]] = PortNeed(prefix, port, tuple(need.columns), span)
        inner = _Level(
            path,
            called.path.parent,
            frozenset(one.name for one in body),
            ports,
            level.names | level.outer,
        )
        self._check_duplicates(body, prefix)
        flat = self._level(body, inner, (*stack, called.path))
        level.exports[node.name] = self._exports(called, inner)
        self.result.instances[path].gives = next(iter(level.exports[node.name].values()), None)
        return flat

    def _body(self, call: NodeSource, called: Composition, values: Mapping[str, Parameter]) -> list[NodeSource] | None:
        """The body's nodes with the call's parameters filled in; None if that is too much, which is reported."""
        if self.is_full:
            return None
        self.nodes += len(called.body)
        self.values += sum(item.size for item in called.body)
        if self.nodes > limits.NODES or self.values > limits.FOLLOWED_VALUES:
            most = f"{limits.NODES} nodes" if self.nodes > limits.NODES else f"{limits.FOLLOWED_VALUES} values"
            self._refuse_more(call, f"with its compositions the pipeline has more than {most}")
            return None
        try:
            items = [parameters.substituted(item, values, self.room) for item in called.body]
        except interpolation.Full:
            what = f"parameters add more than {limits.FILLED_CHARACTERS} characters into the bodies of compositions"
            self._refuse_more(call, what)
            return None
        return [node for item in items if (node := written.read_node(item, self.found)) is not None]

    def _refuse_more(self, call: NodeSource, message: str) -> None:
        """Report, once, that the pipeline expands to too much: nothing more is expanded."""
        self.is_full = True
        self.found.add(codes.E017.at(call.span, f'{message}, at node "{call.name}"', help="split the pipeline"))

    def _check_duplicates(self, body: list[NodeSource], prefix: str) -> None:
        seen: set[str] = set()
        for node in body:
            if node.name in seen:
                self.found.add(codes.E001.at(node.span, f'duplicate node name: "{node.name}" in composition {prefix}'))
            seen.add(node.name)

    def _open(self, node: NodeSource, level: _Level, stack: tuple[FilePath, ...]) -> Composition | None:
        use = node.tree.get("use")
        if not isinstance(use, Scalar) or not use.text.strip():
            place = node.span if use is None else reader.value_span(node.tree, ("use",))
            self.found.add(codes.E006.at(place, "a composition needs the key `use`: the path of a .comp.yaml file"))
            return None
        folder = self._folder(use.text, level.folder)
        problem = self._refused(use.text, folder)
        if problem:
            self.found.add(codes.E_SEC_001.at(use.span, problem[0], help=problem[1]))
            return None
        path = _found_from(folder, use.text)
        if not small_files.is_there(path):
            message = f'composition node "{node.name}": `use: {use.text}` does not match any .comp.yaml'
            advice = f"there is no {path}" if isinstance(path, location.Location) else "check the path"
            hint = nearest.hint(use.text, _beside(level.folder))
            self.found.add(codes.E103.at(use.span, message, help=hint or advice))
            return None
        if path in stack:
            ring = " -> ".join(p.name for p in (*stack[stack.index(path) :], path))
            self.found.add(codes.E107.at(use.span, f"cycle in composition `use:` graph: {ring}"))
            return None
        if len(stack) >= limits.COMPOSITION_DEPTH:
            message = f'composition nesting too deep (>{limits.COMPOSITION_DEPTH}) at node "{node.name}"'
            self.found.add(codes.E107.at(use.span, message))
            return None
        if len(self.result.instances) >= limits.COMPOSITION_CALLS:
            message = f'more than {limits.COMPOSITION_CALLS} calls of compositions, at node "{node.name}"'
            self.found.add(codes.E107.at(use.span, message, help="split the pipeline"))
            return None
        if path not in self.files:
            shown = paths.display_path(path, self.base_dir)
            self.files[path] = composition.load(path, shown, self.base_dir, self.variables, self.found)
        return self.files[path]

    def _refused(self, path: str, folder: FilePath | None = None) -> tuple[str, str] | None:
        return paths.security_problem(path, self.base_dir, allow_absolute=self.allow_absolute, folder=folder)

    def _folder(self, use: str, nearest_folder: FilePath) -> FilePath:
        """The folder in which a call's file is searched: the calling file's folder, or the base folder."""
        if location.is_uri(use) or paths.climbs(use):
            return nearest_folder  # it may be refused, and no store is asked without consent
        folders = (nearest_folder, self.base_dir)
        # A name that no file system takes is no file either.
        return next((each for each in folders if small_files.is_there(_found_from(each, use))), nearest_folder)

    def _exports(self, called: Composition, inner: _Level) -> dict[str, tuple[str, str]]:
        """The node and port behind each output port."""
        exports: dict[str, tuple[str, str]] = {}
        for port, target in called.signature.outputs.items():
            node, _, channel = target.ref.partition(".")
            span = called.place("outputs", port)
            if node in inner.broken:
                inner_target = None
            else:
                inner_target = self._target(Reference(node, channel, "", span, ("outputs", port)), "", inner)
            if inner_target is not None:
                exports[port] = inner_target
        return exports

    def _renamed(self, node: NodeSource, level: _Level) -> NodeSource:
        if not level.path and not level.exports and not level.broken:
            return node
        prefix = "/".join(level.path)
        inputs = []
        for reference in node.inputs:
            target = self._target(reference, node.name, level)
            if target is not None:
                inputs.append(replace(reference, node=target[0], port=target[1], written=reference.node))
        name = f"{prefix}/{node.name}" if prefix and node.name else node.name
        missing = len(inputs) < len(node.inputs)
        return replace(
            node, name=name, inputs=tuple(inputs), instance=level.path, config=None if missing else node.config
        )

    def _target(self, reference: Reference, consumer: str, level: _Level) -> tuple[str, str] | None:
        """The flat node and port that a reference means at its level, None when that has been reported."""
        if reference.node in level.broken:
            return None
        if reference.node in level.exports:
            return self._port_of_call(reference, consumer, level)
        prefix = "/".join(level.path)
        if reference.node in level.names:
            return (f"{prefix}/{reference.node}" if prefix else reference.node), reference.port
        if reference.node in level.ports:
            return level.ports[reference.node], ""
        if not level.path:
            return reference.node, reference.port
        if reference.node in level.outer:
            message = (
                f'node "{consumer}" references "{reference.node}" from the enclosing scope; composition bodies are '
                "isolated from the parent pipeline"
            )
            self.found.add(codes.E108.at(reference.span, message, help="declare an input port and bind it in the call"))
            return None
        message = f'composition "{prefix}": "{reference.node}" is neither a port nor a node of the body'
        known = [*level.ports, *level.names]
        hint = nearest.hint(reference.node, known) or f"ports: {', '.join(level.ports)}"
        self.found.add(codes.E102.at(reference.span, message, help=hint))
        return None

    def _port_of_call(self, reference: Reference, consumer: str, level: _Level) -> tuple[str, str] | None:
        exports = level.exports[reference.node]
        if not reference.port and exports:
            port = level.readers.get(reference.node, {}).get(consumer)
            return exports[port] if port else next(iter(exports.values()))
        if reference.port in exports:
            return exports[reference.port]
        message = f"the composition '{reference.node}' has no output port '{reference.port}'"
        hint = nearest.hint(reference.port, exports) or f"its ports: {', '.join(exports)}"
        self.found.add(codes.E102.at(reference.span, message, help=hint))
        return None

    def _bind_ports(self, node: NodeSource, level: _Level) -> None:
        """Bind each input port of a call."""
        path = (*level.path, level.prefixes[node.name])
        instance = self.result.instances.get(path) if node.name not in level.broken else None
        if instance is None:
            return
        ports = instance.composition.signature.inputs
        named = {reference.qualifier: reference for reference in node.inputs if reference.qualifier}
        single = next((reference for reference in node.inputs if not reference.qualifier), None)
        for port in named:
            if port not in ports:
                message = f'composition node "{node.name}": the input port "{port}" is not declared'
                hint = nearest.hint(port, ports) or f"its ports: {', '.join(ports) or 'none'}"
                self.found.add(codes.E103.at(reader.locate(node.tree, ("inputs", port))[1], message, help=hint))
        unbound = [port for port in ports if port not in named]
        if single is not None and len(unbound) == 1:
            named[unbound.pop()] = single
        for port in unbound:
            message = f'composition node "{node.name}": missing required input port "{port}"'
            self.found.add(codes.E104.at(node.span, message, help=f"add `inputs: {{{port}: <node>}}`"))
        for port in ports:
            bound = named.get(port)
            target = self._target(bound, node.name, level) if bound is not None else None
            self.bindings[f"{_PORT}{'/'.join(path)}:{port}"] = target

    def _wired(self, node: NodeSource) -> NodeSource:
        """The node with placeholders of ports replaced by the nodes that they are bound to."""
        inputs = []
        for reference in node.inputs:
            target: tuple[str, str] | None = (reference.node, reference.port)
            needs = []
            for _ in range(limits.COMPOSITION_DEPTH + 1):
                if target is None or not target[0].startswith(_PORT):
                    break
                needs.append(target[0])
                target = self.bindings.get(target[0])
            if target is not None and not target[0].startswith(_PORT):
                inputs.append(replace(reference, node=target[0], port=target[1], needs=tuple(needs)))
        missing = len(inputs) < len(node.inputs)
        return replace(node, inputs=tuple(inputs), config=None if missing else node.config)


def provenance(expansion: Expansion) -> dict[str, dict[str, Any]]:
    """All parameters by call and name, for `explain`."""
    return {"/".join(path): dict(instance.parameters) for path, instance in expansion.instances.items()}


def _found_from(folder: FilePath, use: str) -> FilePath:
    """The file that a call names, from some folder."""
    try:
        found = location.located(use, folder)
    except location.BadLocation:  # which is told with the other paths
        return folder / use
    return location.absolute(found)


def _beside(folder: FilePath) -> list[str]:
    """The names of composition files in a folder; a store is not asked for a list."""
    if isinstance(folder, location.Location):
        return []
    return [each.name for each in sorted(folder.glob("*.comp.yaml"))[:50]]
