"""The graph of a pipeline by names alone: identity, wiring, cycles, order."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.diagnostics.diagnostic import Label
from spark_jobs.nodes.binding import Wiring

if TYPE_CHECKING:
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.plan.reading.wiring import Reference


@dataclass
class Graph:
    """Nodes by name, and each node's inputs; `order` is topological, declaration order among independents.

    A node comes after the nodes in `lookups`, too: those that it reads beside its inputs.
    """

    nodes: dict[str, NodeSource] = field(default_factory=dict)
    inputs: dict[str, tuple[Reference, ...]] = field(default_factory=dict)
    lookups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def ancestors(self, name: str) -> set[str]:
        """All nodes whose records or state reach this one."""
        found: set[str] = set()
        stack = [name]
        while stack:
            for reference in self.inputs[stack.pop()]:
                if reference.node not in found:
                    found.add(reference.node)
                    stack.append(reference.node)
        return found

    def consumers(self) -> dict[str, list[str]]:
        """The nodes that read each node, in topological order."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in self.order:
            for name in dict.fromkeys(reference.node for reference in self.inputs[node]):
                found[name].append(node)
        return found


def build(nodes: list[NodeSource], found: Diagnostics, broken: frozenset[str] = frozenset()) -> Graph:
    """The graph, with all that is wrong with it reported together; usable only when nothing was.

    `broken` are names of nodes that could not be read: inputs may name them without blame.
    """
    graph = Graph()
    _check_names(nodes, graph, found)
    for node in nodes:
        if graph.nodes.get(node.name) is not node:
            continue
        graph.inputs[node.name] = tuple(
            reference for reference in node.inputs if _is_known(reference, node, graph, found, broken)
        )
        graph.lookups[node.name] = _lookups(node, graph)
    _sort(graph, found)
    return graph


def _lookups(node: NodeSource, graph: Graph) -> tuple[str, ...]:
    """The nodes that a node reads beside its inputs; binding reports what is wrong with their names."""
    written = node.config.looked_up if node.config is not None else ()
    names = ("/".join((*node.instance, each.partition(".")[0])) for each in written)
    return tuple(dict.fromkeys(name for name in names if name in graph.nodes and name != node.name))


def _check_names(nodes: list[NodeSource], graph: Graph, found: Diagnostics) -> None:
    folded: dict[str, str] = {}
    for node in nodes:
        if not node.name:
            continue
        if node.name in graph.nodes:
            first = graph.nodes[node.name].span
            expanded = node.instance or graph.nodes[node.name].instance
            code = codes.E106 if expanded else codes.E001
            message = f'duplicate node name: "{node.name}"' + (" after compositions are expanded" if expanded else "")
            found.add(code.at(node.span, message, help="rename one", labels=(Label(first, "the first one"),)))
            continue
        graph.nodes[node.name] = node
        if "." in node.name:
            message = f"{node.kind} name \"{node.name}\" is invalid: '.' is reserved for branch references"
            found.add(codes.E010.at(node.span, message, help="use underscores or hyphens"))
        twin = folded.setdefault(node.name.casefold(), node.name)
        if twin != node.name:
            message = f'node names differ only in case ("{twin}" vs "{node.name}"); this is allowed but discouraged'
            found.add(codes.W002.at(node.span, message))


def _is_known(reference: Reference, node: NodeSource, graph: Graph, found: Diagnostics, broken: frozenset[str]) -> bool:
    if reference.node == node.name:
        found.add(
            codes.E002.at(reference.span, f'node "{node.name}" lists itself as an input', help="name another node")
        )
        return False
    if reference.node in broken:
        return False
    if reference.node not in graph.nodes:
        is_named = node.type.wiring is Wiring.NAMED
        code = codes.E307 if is_named else codes.E004
        what = (
            f"{node.kind} '{node.name}' input '{reference.qualifier}' references undeclared upstream '{reference.node}'"
            if is_named
            else f'node "{node.name}" input "{reference.node}" references an undeclared node'
        )
        hint = nearest.hint(reference.node, graph.nodes) or f"nodes here: {', '.join(list(graph.nodes)[:12])}"
        found.add(code.at(reference.span, what, help=hint))
        return False
    return True


def _sort(graph: Graph, found: Diagnostics) -> None:
    """Orders the nodes (Kahn's algorithm, first declared first) and reports the remaining nodes as cycles."""
    number = {name: index for index, name in enumerate(graph.nodes)}
    waiting = {name: set(_awaited(graph, name)) for name in graph.nodes}
    readers: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for name, producers in waiting.items():
        for producer in producers:
            readers[producer].append(name)
    ready = [number[name] for name, producers in waiting.items() if not producers]
    heapq.heapify(ready)
    names = list(graph.nodes)
    while ready:
        name = names[heapq.heappop(ready)]
        graph.order.append(name)
        for reader in readers[name]:
            waiting[reader].discard(name)
            if not waiting[reader]:
                heapq.heappush(ready, number[reader])
    left = [name for name in graph.nodes if waiting[name]]
    if left:
        _report_cycles(graph, left, found)


def _awaited(graph: Graph, name: str) -> list[str]:
    """The nodes that have to come before a node."""
    return [*(reference.node for reference in graph.inputs[name]), *graph.lookups[name]]


def _report_cycles(graph: Graph, left: list[str], found: Diagnostics) -> None:
    remaining = set(left)
    for start in left:
        if start not in remaining:
            continue
        path = _cycle(graph, start, remaining)
        remaining -= set(path)
        if len(path) < 2:
            continue
        first = path.index(min(path, key=left.index))
        path = path[first:] + path[:first]
        ring = " → ".join([*path, path[0]])
        labels = tuple(Label(graph.nodes[name].span, f"`{name}` is part of it") for name in path[1:])
        message = f"cycle detected: {ring}"
        help_text = "records flow one way"
        ring_of = zip([*path[1:], path[0]], path, strict=True)
        looking = next((pair for pair in ring_of if pair[1] in graph.lookups[pair[0]]), None)
        if looking is not None:
            reader, read = looking
            help_text = (
                f"'{reader}' refers to records of '{read}', which follow from its own: refer to a node upstream, or "
                "write the rule under `validations` of an output"
            )
        found.add(codes.E003.at(graph.nodes[path[0]].span, message, help=help_text, labels=labels))


def _cycle(graph: Graph, start: str, left: set[str]) -> list[str]:
    """A cycle that the node leads back to, in flow order; just the node when it only hangs below a cycle."""
    trail: list[str] = []
    seen: dict[str, int] = {}
    node = start
    while node not in seen:
        seen[node] = len(trail)
        trail.append(node)
        following = [name for name in _awaited(graph, node) if name in left]
        if not following:
            return trail[:1]
        node = following[0]
    return trail[seen[node] :][::-1]
