"""Reads a composition call: the name prefix of its nodes, and the readers of its ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes.model import kind_of
from spark_jobs.plan.reading import reader
from spark_jobs.plan.reading.yaml_tree import Mapping, Scalar

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.reading.nodes import NodeSource


def prefix(call: NodeSource, found: Diagnostics) -> str:
    """The prefix of the names of the body's nodes: the call's alias, else its name."""
    alias = call.tree.get("alias")
    if alias is None or reader.data(alias) is None:
        return call.name
    if isinstance(alias, Scalar) and alias.text.strip() and not set("./") & set(alias.text):
        return alias.text
    message = "`alias`: expected a name without `.` and `/`"
    found.add(codes.E007.at(reader.value_span(call.tree, ("alias",)), message))
    return call.name


def readers(call: str, nodes: list[NodeSource], exports: Iterable[str], found: Diagnostics) -> dict[str, str]:
    """The output port that each node gets which the call's `outputs:` names; `exports` are the ports that there are."""
    by_name = {node.name: node for node in nodes}
    node, ports = by_name[call], list(exports)
    written = node.tree.get("outputs")
    if written is None or reader.data(written) is None:
        return {}
    if not isinstance(written, Mapping):
        message = f"`outputs`: expected a mapping of ports to nodes, found {kind_of(reader.data(written))}"
        found.add(codes.E007.at(reader.value_span(node.tree, ("outputs",)), message))
        return {}
    bound: dict[str, str] = {}
    for port, entry in written.entries.items():
        if port == "_notes":
            continue
        if port not in ports:
            message = f'composition node "{call}": the output port "{port}" is not declared'
            hint = nearest.hint(port, ports) or f"its ports: {', '.join(ports)}"
            found.add(codes.E103.at(entry.key, message, help=hint))
            continue
        place = reader.value_span(node.tree, ("outputs", port))
        if not isinstance(entry.value, Scalar) or entry.value.value is None:
            message = f"`outputs`: expected the name of a node, found {kind_of(reader.data(entry.value))}"
            found.add(codes.E007.at(place, message))
            continue
        name = entry.value.text
        if name not in by_name:
            message = f'composition node "{call}": the output port "{port}" leads to "{name}", which is not a node here'
            hint = nearest.hint(name, by_name) or f"nodes here: {', '.join(list(by_name)[:12])}"
            found.add(codes.E004.at(place, message, help=hint))
        elif name in bound:
            message = f'composition node "{call}": "{name}" is bound to the output ports "{bound[name]}" and "{port}"'
            help_text = f"write its inputs as `{call}.{bound[name]}` and `{call}.{port}`"
            found.add(codes.E102.at(place, message, help=help_text))
        elif _reads(by_name[name], call, port, place, found):
            bound[name] = port
    return bound


def _reads(reader_node: NodeSource, call: str, port: str, place: Span, found: Diagnostics) -> bool:
    """True if a node reads a call without naming another port; an unread port is reported."""
    ports: Container[str] = {reference.port for reference in reader_node.inputs if reference.node == call}
    if "" in ports or port in ports:
        return True
    message = f'the output port "{port}" of "{call}" leads to "{reader_node.name}", which does not read it'
    found.add(codes.E102.at(place, message, help=f"write `{call}.{port}` as its input, or leave it out here"))
    return False
