"""Nodes as written: their keys with source positions, their `config:` as models, their inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.diagnostics.diagnostic import Label
from spark_jobs.nodes import registry
from spark_jobs.nodes.binding import NodeType, Wiring
from spark_jobs.plan.reading import reader, wiring
from spark_jobs.plan.reading.yaml_tree import Entry, Mapping, Node, Scalar, Sequence, is_null

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingType

    from spark_jobs.diagnostics.diagnostic import Diagnostic, Diagnostics
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.nodes.model import NodeConfig
    from spark_jobs.plan.reading.wiring import Reference

_HEADER = ("type", "name", "description", "_notes", "config")
#: The name of `config.type` in flat nodes, whose `type` is the kind of node.
_FORMAT_KEY = "format"


@dataclass
class NodeSource:
    """A node as it is written, checked against its model.

    `config` and `parts` are None and incomplete where they did not fit; the file is not planned then. `instance` is
    the chain of composition
    calls that the node is in.
    """

    name: str
    type: NodeType
    tree: Mapping
    config: NodeConfig | None
    inputs: tuple[Reference, ...]
    parts: dict[tuple[str | int, ...], Any] = field(default_factory=dict)
    description: str | None = None
    instance: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The word under `type:`."""
        return self.type.kind

    @property
    def is_source(self) -> bool:
        """True if records begin here."""
        return self.type.wiring is Wiring.NONE

    @property
    def is_call(self) -> bool:
        """True if a composition's body takes its place."""
        return self.type.wiring is Wiring.CALL

    @property
    def span(self) -> Span:
        """The place of the node's name."""
        return reader.value_span(self.tree, ("name",))

    @property
    def body(self) -> Node | None:
        """The tree of `config:`."""
        return self.tree.get("config")


def read_nodes(tree: Mapping, found: Diagnostics) -> list[NodeSource]:
    """The nodes of a pipeline or composition file."""
    listed = tree.get("nodes")
    if listed is None:
        return []
    if not isinstance(listed, Sequence):
        message = "`nodes` is a list of nodes, each with `type:` and `name:`"
        found.add(codes.E007.at(reader.head(tree.entries["nodes"].key), message))
        return []
    return [node for item in listed.items if (node := read_node(item, found)) is not None]


#: Names that other tools use for kinds of nodes.
_TYPES_ELSEWHERE = {
    **dict.fromkeys(("select", "map", "filter", "where", "expression", "compute", "calculate", "derive"), "transform"),
    **dict.fromkeys(("join", "lookup", "enrich"), "combine"),
    **dict.fromkeys(("group", "group_by", "groupby", "summarize", "summarise"), "aggregate"),
    **dict.fromkeys(("union", "concat", "append", "union_all"), "merge"),
    **dict.fromkeys(("switch", "branch", "split", "case", "router", "conditional_split"), "route"),
    **dict.fromkeys(("sink", "load", "write", "writer", "target", "destination"), "output"),
    **dict.fromkeys(("read", "reader", "extract", "input", "load_file"), "source"),
}


def read_node(item: Node, found: Diagnostics) -> NodeSource | None:
    """Read one node; None if it has no usable type."""
    if not isinstance(item, Mapping):
        found.add(codes.E007.at(reader.head(item.span), "a node is a mapping with `type:` and `name:`"))
        return None
    kinds = registry.node_types()
    written = item.get("type")
    if written is None or not isinstance(written, Scalar):
        message = f"a node needs the key `type`: one of {', '.join(kinds)}"
        found.add(codes.E006.at(reader.head(item.span), message))
        return None
    if written.text not in kinds:
        known = _TYPES_ELSEWHERE.get(written.text.lower().replace("-", "_"))
        proposal = f"did you mean `{known}`?" if known else nearest.hint(written.text, kinds)
        message = f"`{written.text}` is not a type of node" + (f"; {proposal}" if proposal else "")
        found.add(codes.E007.at(written.span, message, help=f"types: {', '.join(kinds)}"))
        return None
    return _read_known(item, kinds[written.text], found)


def _read_known(item: Mapping, kind: NodeType, found: Diagnostics) -> NodeSource | None:
    item = _hoisted(_respelt(item, kind, found), kind, found)
    name_tree = item.get("name")
    name = ""
    if name_tree is None:
        found.add(codes.E006.at(reader.head(item.span), f"{kind.article} {kind.kind} needs the key `name`"))
    elif not isinstance(name_tree, Scalar) or not name_tree.text.strip():
        found.add(codes.E007.at(reader.value_span(item, ("name",)), "`name`: expected a name"))
    else:
        name = name_tree.text
    inputs = wiring.read(item, kind, found)
    config = _config(item, kind, found)
    description = item.get("description")
    node = NodeSource(
        name, kind, item, config, inputs, description=description.text if isinstance(description, Scalar) else None
    )
    if kind.parts and isinstance(node.body, Mapping):
        _read_parts(node, kind.parts(reader.data(node.body)), found)
    return node


def _read_parts(node: NodeSource, parts: MappingType[tuple[str | int, ...], Any], found: Diagnostics) -> None:
    for path, part in parts.items():
        tree, _, depth = reader.locate(node.tree, ("config", *path))
        if depth < len(path) + 1 or is_null(tree):
            continue
        # A text under a mapping's key is the path of a file that holds the mapping; the planner reads it.
        node.parts[path] = tree.text if isinstance(tree, Scalar) else reader.read(part, tree, found, key=str(path[-1]))


def _respelt(item: Mapping, kind: NodeType, found: Diagnostics) -> Mapping:
    """The node with the usual names of its keys, on the node and under `config:`."""
    item = _renamed(item, kind.spellings, found)
    config = item.entries.get("config")
    if config is None or not isinstance(config.value, Mapping):
        return item
    body = _renamed(config.value, kind.spellings, found)
    return Mapping(item.span, {**item.entries, "config": Entry(config.key, body)}, item.size)


def _renamed(tree: Mapping, spellings: MappingType[str, str], found: Diagnostics) -> Mapping:
    entries: dict[str, Entry] = {}
    for key, entry in tree.entries.items():
        name = spellings.get(key, key)
        if name != key and name in tree.entries:
            message = f"`{key}` is another name of `{name}`, and both are written"
            found.add(codes.E008.at(entry.key, message, help="keep one of the two"))
        else:
            entries[name] = entry
    return Mapping(tree.span, entries, tree.size)


def _hoisted(item: Mapping, kind: NodeType, found: Diagnostics) -> Mapping:
    """The node with configuration keys moved from node level to `config:`; unknown and repeated keys are reported."""
    header = (*_HEADER, *wiring.KEYS[kind.wiring])
    allowed = (
        [] if kind.wiring is Wiring.CALL else [key for key in reader.allowed_keys(kind.config) if key not in header]
    )
    body = item.get("config")
    hoisted: dict[str, Entry] = {}
    for key, entry in item.entries.items():
        target = "type" if key == _FORMAT_KEY and "type" in reader.allowed_keys(kind.config) else key
        if key in header:
            continue
        if target not in allowed and target != "type":
            known = [k for k in header if k != "_notes"]
            found.add(_unknown_node_key(key, entry, kind, known, allowed, _below(kind, body)))
        elif isinstance(body, Mapping) and target in body.entries:
            found.add(_twice(key, entry.key, body.entries[target].key))
        else:
            hoisted[target] = entry
    if not hoisted:
        return item
    entries = dict(body.entries) if isinstance(body, Mapping) else {}
    place = item.entries["config"].key if "config" in item.entries else item.entries["type"].key
    config = Mapping(body.span if body else item.span, {**entries, **hoisted}, item.size)
    kept = {key: entry for key, entry in item.entries.items() if key in header}
    return Mapping(item.span, {**kept, "config": Entry(place, config)}, item.size)


def _below(kind: NodeType, body: Any) -> dict[str, str]:
    """The keys of parts of a node's configuration, with the key of the part."""
    if kind.parts is None or not isinstance(body, Mapping):
        return {}
    parts = kind.parts(reader.data(body))
    return {key: str(path[0]) for path, model in parts.items() if len(path) == 1 for key in reader.allowed_keys(model)}


def _unknown_node_key(
    key: str, entry: Entry, kind: NodeType, header: list[str], config: list[str], below: MappingType[str, str]
) -> Diagnostic:
    if (known := reader.below_of(key, below)) is not None:
        return codes.E005.at(entry.key, f"unknown key `{key}` of {kind.article} {kind.kind}", help=known)
    proposal = nearest.hint(key, (*header, *config))
    listed = f"keys of {kind.article} {kind.kind}: {', '.join(header)}"
    if config:
        listed += f"; under `config:` also {', '.join(config)}"
    message = f"unknown key `{key}` of {kind.article} {kind.kind}"
    if proposal is None and (other := reader.elsewhere(key)) is not None:
        listed = other
    return codes.E005.at(entry.key, message + (f"; {proposal}" if proposal else ""), help=listed)


def _twice(key: str, here: Span, there: Span) -> Diagnostic:
    first, second = sorted((here, there), key=lambda span: span.start)
    message = f"`{key}` stands on the node and under `config:`, at {first} and {second}"
    return codes.E008.at(second, message, help="keep one of the two", labels=(Label(first, "also here"),))


def _config(item: Mapping, kind: NodeType, found: Diagnostics) -> NodeConfig | None:
    entry = item.entries.get("config")
    if entry is None or is_null(entry.value):
        if kind.needs_config:
            place = entry.key if entry else item.span
            needed = [info.alias or key for key, info in kind.config.model_fields.items() if info.is_required()]
            message = f"{kind.article} {kind.kind} needs `config:` with {', '.join(f'`{key}`' for key in needed)}"
            found.add(codes.E006.at(reader.head(place), message))
            return None
        return kind.config()
    below = _below(kind, entry.value)
    return reader.read(kind.config, entry.value, found, key="config", place=entry.key, below=below)
