"""The inputs of a node as written: the keys that have them, and their references to nodes and ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.nodes.binding import NodeType, Wiring
from spark_jobs.nodes.model import kind_of
from spark_jobs.plan.reading import reader
from spark_jobs.plan.reading.yaml_tree import Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.diagnostics.source import Span

#: The keys of a node that have its inputs.
KEYS = {
    Wiring.NONE: (),
    Wiring.ONE: ("input",),
    Wiring.LIST: ("inputs",),
    Wiring.NAMED: ("input",),
    Wiring.CALL: ("input", "inputs", "use", "alias", "outputs", "resources"),
}


@dataclass(frozen=True)
class Reference:
    """A name of an input as it is written: node, port, and the qualifier it is given.

    `path` leads to it inside the node. `needs` names the composition ports that records come in by, innermost first.
    `written` is the node as the file names it, where that is a call or a port that stands for another by now.
    """

    node: str
    port: str
    qualifier: str
    span: Span
    path: tuple[str | int, ...]
    needs: tuple[str, ...] = ()
    written: str = ""


def read(item: Mapping, kind: NodeType, found: Diagnostics) -> tuple[Reference, ...]:
    """The inputs of a node of a type; problems are added to `found`."""
    match kind.wiring:
        case Wiring.NONE:
            return ()
        case Wiring.ONE:
            return _one(item, kind, found)
        case Wiring.LIST:
            return _list(item, kind, found)
        case Wiring.NAMED:
            return _named(item, kind, "input", found)
        case Wiring.CALL:
            single = _one(item, kind, found) if "input" in item.entries else ()
            return single + (_named(item, kind, "inputs", found) if "inputs" in item.entries else ())


def _missing_input(item: Mapping, kind: NodeType, key: str, shape: str, found: Diagnostics) -> tuple[Reference, ...]:
    found.add(codes.E006.at(reader.head(item.span), f"{kind.article} {kind.kind} needs the key `{key}`: {shape}"))
    return ()


def _one(item: Mapping, kind: NodeType, found: Diagnostics) -> tuple[Reference, ...]:
    value = item.get("input")
    if value is None:
        return _missing_input(item, kind, "input", "the name of a node", found)
    reference = _reference(value, item, ("input",), "", found)
    return (reference,) if reference else ()


def _list(item: Mapping, kind: NodeType, found: Diagnostics) -> tuple[Reference, ...]:
    value = item.get("inputs")
    if value is None:
        return _missing_input(item, kind, "inputs", "a list of nodes", found)
    if not isinstance(value, Sequence):
        message = f"`inputs`: expected a list of nodes, found {kind_of(reader.data(value))}"
        found.add(codes.E007.at(reader.value_span(item, ("inputs",)), message))
        return ()
    if not value.items:
        found.add(codes.E007.at(reader.value_span(item, ("inputs",)), f"a {kind.kind} needs at least one input"))
    listed = [_reference(part, item, ("inputs", index), "", found) for index, part in enumerate(value.items)]
    return tuple(reference for reference in listed if reference)


def _named(item: Mapping, kind: NodeType, key: str, found: Diagnostics) -> tuple[Reference, ...]:
    value = item.get(key)
    if value is None:
        return _missing_input(item, kind, key, "a mapping of qualifiers to nodes", found)
    if not isinstance(value, Mapping):
        message = f"`{key}`: expected a mapping of names to nodes, found {kind_of(reader.data(value))}"
        found.add(codes.E007.at(reader.value_span(item, (key,)), message))
        return ()
    named = [_reference(entry.value, item, (key, name), name, found) for name, entry in value.entries.items()]
    return tuple(reference for reference in named if reference)


def _reference(
    value: Node, item: Mapping, path: tuple[str | int, ...], qualifier: str, found: Diagnostics
) -> Reference | None:
    place = reader.value_span(item, path)
    if not isinstance(value, Scalar) or value.value is None:
        message = f"`{path[0]}`: expected the name of a node, found {kind_of(reader.data(value))}"
        found.add(codes.E007.at(place, message))
        return None
    node, dot, port = value.text.strip().partition(".")
    if not node or (dot and not port) or "." in port:
        found.add(codes.E007.at(place, f"invalid input ref `{value.text}`: write `node` or `node.port`"))
        return None
    return Reference(node, port, qualifier, value.span, path)
