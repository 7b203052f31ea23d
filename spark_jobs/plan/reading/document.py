"""A pipeline file read and checked for itself: blocks and nodes as models, wiring as references, all with places."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.diagnostics.diagnostic import Label
from spark_jobs.diagnostics.source import SourceFile, Span
from spark_jobs.nodes import registry
from spark_jobs.nodes.binding import NodeType, Wiring
from spark_jobs.nodes.model import kind_of
from spark_jobs.plan.reading import model, reader, secrecy, yaml_tree
from spark_jobs.plan.reading.yaml_tree import Entry, Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingType
    from pathlib import Path

    from spark_jobs.diagnostics.diagnostic import Diagnostic, Diagnostics
    from spark_jobs.nodes.model import NodeConfig

_WIRING_KEYS = {
    Wiring.NONE: (),
    Wiring.ONE: ("input",),
    Wiring.LIST: ("inputs",),
    Wiring.NAMED: ("input",),
    Wiring.CALL: ("input", "inputs", "use", "alias", "outputs", "resources"),
}
_HEADER = ("type", "name", "description", "_notes", "config")
#: What flat nodes call `config.type` (book: system variables).
_FORMAT_KEY = "format"


@dataclass(frozen=True)
class Reference:
    """A name of an input as it is written: node, port, and the qualifier it is given.

    `path` leads to it inside the node. `needs` names the composition ports that records come in by, innermost first.
    """

    node: str
    port: str
    qualifier: str
    span: Span
    path: tuple[str | int, ...]
    needs: tuple[str, ...] = ()


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
        """Whether records begin here."""
        return self.type.wiring is Wiring.NONE

    @property
    def is_call(self) -> bool:
        """Whether a composition's body takes its place."""
        return self.type.wiring is Wiring.CALL

    @property
    def span(self) -> Span:
        """The place of the node's name."""
        return reader.value_span(self.tree, ("name",))

    @property
    def body(self) -> Node | None:
        """The tree of `config:`."""
        return self.tree.get("config")


@dataclass
class Document:
    """A pipeline file, read."""

    file: SourceFile
    tree: Mapping
    pipeline: model.PipelineConfig | None
    errors: model.ErrorHandlingConfig | None
    nodes: list[NodeSource]
    source_hash: str
    #: Names of nodes that could not be read: inputs that name them are not to blame.
    broken: frozenset[str] = frozenset()


def open_text(path: Path, found: Diagnostics, name: str | None = None) -> SourceFile | None:
    """A file's text; None when it cannot be read as UTF-8, which `found` then says."""
    shown = name or str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error)).lower()
        found.add(codes.E000.at(None, f"cannot read `{shown}`: {reason}", help="check the path"))
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        file = SourceFile(shown, before)
        secrecy.hide_unread(file, 0, len(before))
        message = f"the file is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}"
        found.add(codes.E000.at(Span(file, len(before), len(before)), message, help="save the file as UTF-8"))
        return None
    return SourceFile(shown, text)


def read(file: SourceFile, variables: MappingType[str, str], found: Diagnostics) -> Document | None:
    """The document of a pipeline file; None when it is not even a mapping."""
    tree = yaml_tree.read(file, variables, found)
    if tree is None:
        return None
    if not isinstance(tree, Mapping):
        message = "a pipeline file is a mapping with `pipeline:` and `nodes:`"
        found.add(codes.E000.at(reader.head(tree.span), message))
        return None
    return read_tree(file, tree, found)


_TOP_KEYS = ["pipeline", "nodes", "error_handling"]


def read_tree(file: SourceFile, tree: Mapping, found: Diagnostics) -> Document:
    """The document of a tree."""
    for key in tree.entries:
        if key not in (*_TOP_KEYS, "_notes"):
            found.add(reader.unknown_key(tree, (key,), _TOP_KEYS))
    start = Span(file, 0, 0)
    for key in ("pipeline", "nodes"):
        if key not in tree.entries:
            found.add(codes.E006.at(start, f"the key `{key}` is required at the top of a pipeline file"))
    pipeline_tree, errors_tree = tree.get("pipeline"), tree.get("error_handling")
    pipeline = reader.read(model.PipelineConfig, pipeline_tree, found, key="pipeline") if pipeline_tree else None
    errors: model.ErrorHandlingConfig | None = model.ErrorHandlingConfig()
    if errors_tree is not None and not _is_null(errors_tree):
        errors = reader.read(model.ErrorHandlingConfig, errors_tree, found, key="error_handling")
    nodes = read_nodes(tree, found)
    return Document(file, tree, pipeline, errors, nodes, _digest(tree), _broken(tree, nodes))


def _broken(tree: Mapping, nodes: list[NodeSource]) -> frozenset[str]:
    listed = tree.get("nodes")
    items = listed.items if isinstance(listed, Sequence) else []
    names = (item.get("name") for item in items if isinstance(item, Mapping))
    return frozenset(name.text for name in names if isinstance(name, Scalar)) - {node.name for node in nodes}


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


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


def read_node(item: Node, found: Diagnostics) -> NodeSource | None:
    """One node; None when it has no usable type."""
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
        proposal = nearest.hint(written.text, kinds)
        message = f"`{written.text}` is no type of node" + (f"; {proposal}" if proposal else "")
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
    inputs = _references(item, kind, found)
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
        if depth < len(path) + 1 or _is_null(tree):
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
    """The node with configuration keys moved from node level to `config:` (decision 4); unknown keys are reported."""
    header = (*_HEADER, *_WIRING_KEYS[kind.wiring])
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
            found.add(_unknown_node_key(key, entry, kind, known, allowed))
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


def _unknown_node_key(key: str, entry: Entry, kind: NodeType, header: list[str], config: list[str]) -> Diagnostic:
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
    if entry is None or _is_null(entry.value):
        if kind.needs_config:
            place = entry.key if entry else item.span
            needed = [info.alias or key for key, info in kind.config.model_fields.items() if info.is_required()]
            message = f"{kind.article} {kind.kind} needs `config:` with {', '.join(f'`{key}`' for key in needed)}"
            found.add(codes.E006.at(reader.head(place), message))
            return None
        return kind.config()
    return reader.read(kind.config, entry.value, found, key="config", place=entry.key)


def _references(item: Mapping, kind: NodeType, found: Diagnostics) -> tuple[Reference, ...]:
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


def _digest(tree: Node) -> str:
    """BLAKE2b-256 of the values after interpolation, so that comments and layout do not count but every value does."""
    digest = hashlib.blake2b(digest_size=32)
    stack: list[Any] = [tree]
    while stack:
        match stack.pop():
            case Scalar() as scalar:
                digest.update(b"=" + scalar.text.encode("utf-8", "surrogatepass") + b"\0")
            case Sequence() as sequence:
                digest.update(b"[")
                stack.extend(reversed(sequence.items))
            case Mapping() as mapping:
                digest.update(b"{")
                for key, entry in reversed(mapping.entries.items()):
                    stack.extend((entry.value, key))
            case str() as key:
                digest.update(key.encode("utf-8", "surrogatepass") + b":")
    return digest.hexdigest()
