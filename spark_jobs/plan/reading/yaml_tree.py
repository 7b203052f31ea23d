"""YAML text as a tree whose every key and value knows its place.

PyYAML's event stream gives syntax and marks; the tree is built here, because limits, duplicate keys, merge keys and the
core schema of YAML 1.2 (`no` and `1_000` are strings) are ours. Nothing of a document is evaluated or constructed
beyond plain scalars.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from spark_jobs import limits
from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Label
from spark_jobs.diagnostics.source import SourceFile, Span, Text
from spark_jobs.plan.reading import interpolation, scalars, secrecy, yaml_mistakes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Mapping as MappingType

    from spark_jobs.diagnostics.diagnostic import Diagnostics

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}


@dataclass(frozen=True, eq=False)
class Scalar:
    """A single value.

    `written` is the scalar's text as YAML reads it, `text` the same with variables and parameters filled in, `value`
    what the core schema makes of it (quoted and block scalars are texts). `edits` lead from `written` to `text`, one
    pass after another. `has_secrets` says that a variable in it is called like a secret.
    """

    span: Span
    written: str
    text: str
    value: Any
    style: str | None
    size: int = 1
    edits: tuple[tuple[interpolation.Edit, ...], ...] = ()
    has_secrets: bool = False

    def located(self) -> Text:
        """The text with the places of its characters in the file, for programs that stand in a scalar."""
        segments = scalars.segments(self.span.file.text, self.span.start, self.style, self.written)
        for edits in self.edits:
            segments = interpolation.shift(segments, edits)
        return Text(self.text, self.span.file, segments)


@dataclass(eq=False)
class Sequence:
    """An ordered list of values."""

    span: Span
    items: list[Node] = field(default_factory=list)
    size: int = 1


@dataclass(frozen=True)
class Entry:
    """A key with its place, and its value."""

    key: Span
    value: Node


@dataclass(eq=False)
class Mapping:
    """Keys in order of appearance."""

    span: Span
    entries: dict[str, Entry] = field(default_factory=dict)
    size: int = 1

    def get(self, key: str) -> Node | None:
        """The value under a key."""
        entry = self.entries.get(key)
        return entry.value if entry else None


Node = Scalar | Sequence | Mapping


def is_null(node: Node) -> bool:
    """True if nothing is written there, or `null`."""
    return isinstance(node, Scalar) and node.value is None


@dataclass
class _Open:
    """A collection that is being read; `key` is the mapping key that waits for its value."""

    node: Sequence | Mapping
    anchor: str | None
    role: secrecy.Role = secrecy.Role.OPEN
    place: secrecy.Place = secrecy.Place.FILE
    key: Scalar | None = None
    merges: list[Mapping] = field(default_factory=list)

    @property
    def role_of_next(self) -> secrecy.Role:
        """The role of the next value."""
        return self.role.below(self.key.written) if self.key else self.role

    @property
    def place_of_next(self) -> secrecy.Place:
        """The place of the next value."""
        return self.place.below(self.key.written) if self.key else self.place


class _Stop(Exception):
    """Reading cannot go on; the problem has been reported."""


class _Builder:
    """Makes the tree from events."""

    def __init__(self, file: SourceFile, variables: MappingType[str, str], found: Diagnostics) -> None:
        self.file = file
        self.variables = variables
        self.found = found
        self.stack: list[_Open] = []
        self.anchors: dict[str, Node] = {}
        self.hidden: dict[tuple[int, secrecy.Role], Node] = {}
        self.placed: dict[tuple[int, secrecy.Place], Node] = {}
        self.has_secrets = False
        self.room = interpolation.CharacterBudget(limits.FILLED_CHARACTERS)
        self.root: Node | None = None
        self.nodes = 0
        #: The offset up to which the text has been understood.
        self.end = 0
        self.documents = 0

    def run(self, events: Iterable[Any]) -> Node | None:
        """The root of the only document, None if there is none."""
        handlers = {
            "DocumentStartEvent": self._document,
            "ScalarEvent": self._scalar,
            "AliasEvent": self._alias,
            "MappingStartEvent": self._open,
            "SequenceStartEvent": self._open,
            "MappingEndEvent": self._close,
            "SequenceEndEvent": self._close,
        }
        for event in events:
            handler = handlers.get(type(event).__name__)
            if handler:
                handler(event)
                self.end = event.end_mark.index
        return self.root

    def _span(self, event: Any) -> Span:
        return Span(self.file, event.start_mark.index, max(event.start_mark.index, event.end_mark.index))

    def _stop(self, span: Span, message: str, help: str | None = None) -> None:
        secrecy.hide_unread(self.file, self.end, span.end)
        self.found.add(codes.E000.at(span, message, help=help))
        raise _Stop

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self._stop(self._span(event), "a second document begins here; a file holds one", "remove the `---`")

    def _count(self, event: Any) -> None:
        self.nodes += 1
        if self.nodes > limits.FILE_VALUES:
            self._stop(self._span(event), f"the file has more than {limits.FILE_VALUES} values")
        if event.tag and event.tag not in _CORE_TAGS and event.tag != "!":
            self._stop(self._span(event), f"the tag `{event.tag}` is not supported", "pipelines use plain YAML values")

    def _scalar(self, event: Any) -> None:
        self._count(event)
        start = scalars.content_start(self.file.text, event.start_mark.index, bool(event.anchor or event.tag))
        span = Span(self.file, start, max(start, event.end_mark.index))
        written = event.value
        is_key = bool(self.stack) and isinstance(self.stack[-1].node, Mapping) and self.stack[-1].key is None
        text = written
        if not is_key and self.stack:
            secrecy.hide(span, self.stack[-1].role_of_next)
        edits: tuple[tuple[interpolation.Edit, ...], ...] = ()
        has_secrets = False
        if not is_key and "$" in written:
            result = self._interpolate(span, event.style, written)
            text, edits, has_secrets = result.text, (result.edits,) if result.edits else (), result.has_secrets
            self.has_secrets |= has_secrets
        plain = event.style in (None, "") and event.tag != "tag:yaml.org,2002:str"
        value = scalars.resolve(text) if plain else text
        style = None if event.style in (None, "") else event.style
        node = Scalar(span, written, text, value, style, edits=edits, has_secrets=has_secrets)
        if event.anchor:
            self.anchors[event.anchor] = node
        self._put(node)

    def _interpolate(self, span: Span, style: str | None, written: str) -> interpolation.Result:
        takes_secrets = bool(self.stack) and self.stack[-1].place_of_next is secrecy.Place.CREDENTIAL
        try:
            result = interpolation.interpolate(written, self.variables, self.room, takes_secrets=takes_secrets)
        except interpolation.Full:
            message = f"environment variables add more than {limits.FILLED_CHARACTERS} characters into the file"
            self.found.add(codes.E017.at(span, message, help="move large texts into separate files"))
            raise _Stop from None
        if result.problems:
            place = Text(written, self.file, scalars.segments(self.file.text, span.start, style, written))
            for problem in result.problems:
                where = place.span(problem.start, problem.end)
                self.found.add(problem.code.at(where, problem.message, help=problem.help))
        return result

    def _alias(self, event: Any) -> None:
        target = self.anchors.get(event.anchor)
        if target is None:
            self._stop(self._span(event), f"the alias `*{event.anchor}` has no anchor before it")
        else:
            if self.stack:
                _hide(target, self.stack[-1].role_of_next, self.hidden)
                if self.has_secrets:
                    self._check_secrets(target, self.stack[-1].place_of_next, self._span(event))
            self._put(target)

    def _check_secrets(self, node: Node, place: secrecy.Place, alias: Span) -> None:
        """Refuse an alias that puts a secret where it could not be written directly."""
        if (id(node), place) in self.placed:
            return
        self.placed[id(node), place] = node
        match node:
            case Scalar():
                if node.has_secrets and place is not secrecy.Place.CREDENTIAL:
                    message = "the alias puts a variable with a secret name where no credential is expected"
                    self.found.add(codes.E016.at(alias, message, help=interpolation.REMEDY))
            case Sequence():
                for item in node.items:
                    self._check_secrets(item, place, alias)
            case Mapping():
                for key, entry in node.entries.items():
                    self._check_secrets(entry.value, place.below(key), alias)

    def _open(self, event: Any) -> None:
        self._count(event)
        if len(self.stack) >= limits.FILE_DEPTH:
            self._stop(self._span(event), f"values are nested more than {limits.FILE_DEPTH} deep")
        span = self._span(event)
        node = Mapping(span) if isinstance(event, yaml.MappingStartEvent) else Sequence(span)
        if self.stack and isinstance(self.stack[-1].node, Mapping) and self.stack[-1].key is None:
            is_template = self.file.text[span.start - 1 : span.start + 1] == "{{"
            help_text = "a text with `{{` in it stands in quotes; `${NAME}` is an environment variable"
            self._stop(span, "a key must be a single value", help_text if is_template else None)
        role = self.stack[-1].role_of_next if self.stack else secrecy.Role.OPEN
        place = self.stack[-1].place_of_next if self.stack else secrecy.Place.FILE
        self.stack.append(_Open(node, event.anchor, role, place))

    def _close(self, event: Any) -> None:
        frame = self.stack.pop()
        end = scalars.trimmed_end(self.file.text, frame.node.span.start, event.end_mark.index)
        frame.node.span = Span(self.file, frame.node.span.start, end)
        if isinstance(frame.node, Mapping):
            for merged in frame.merges:
                for key, entry in merged.entries.items():
                    frame.node.entries.setdefault(key, entry)
        if frame.anchor:
            self.anchors[frame.anchor] = frame.node
        self._put(frame.node)

    def _put(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        frame.node.size += node.size
        if frame.node.size > limits.FOLLOWED_VALUES:
            self._stop(node.span, "the file's aliases expand to too many values")
        if isinstance(frame.node, Sequence):
            frame.node.items.append(node)
        elif frame.key is None:
            self._key(frame, node)
        else:
            self._entry(frame, frame.node, frame.key, node)
            frame.key = None

    def _key(self, frame: _Open, node: Node) -> None:
        if not isinstance(node, Scalar):
            self._stop(node.span, "a key must be a single value")
        else:
            frame.key = node

    def _entry(self, frame: _Open, mapping: Mapping, key: Scalar, value: Node) -> None:
        name = key.written
        if name == "<<" and key.style is None:
            frame.merges.extend(self._merged(value))
        elif name in mapping.entries:
            first = mapping.entries[name].key
            self.found.add(
                codes.E008.at(
                    key.span,
                    f"the key `{name}` is already in this mapping, at line {first.line}",
                    help="keep one of the two",
                    labels=(Label(first, "first written here"),),
                )
            )
        else:
            mapping.entries[name] = Entry(key.span, value)

    def _merged(self, value: Node) -> list[Mapping]:
        items = value.items if isinstance(value, Sequence) else [value]
        for item in items:
            if not isinstance(item, Mapping):
                self._stop(item.span, "`<<` merges mappings, and this is none")
        return [item for item in items if isinstance(item, Mapping)]


def _hide(node: Node, role: secrecy.Role, seen: dict[tuple[int, secrecy.Role], Node]) -> None:
    """Hide the secret parts of a value where an alias has put it; `seen` are the values visited before."""
    if (id(node), role) in seen:
        return
    seen[id(node), role] = node
    match node:
        case Scalar():
            secrecy.hide(node.span, role)
        case Sequence():
            for item in node.items:
                _hide(item, role, seen)
        case Mapping():
            for key, entry in node.entries.items():
                _hide(entry.value, role.below(key), seen)


def read(file: SourceFile, variables: MappingType[str, str], found: Diagnostics) -> Node | None:
    """The tree of a file's only document; None if it is empty or cannot be read, which `found` then says."""
    if len(file.text) > limits.FILE_CHARACTERS:
        found.add(codes.E000.at(Span(file, 0, 0), f"the file is larger than {limits.FILE_CHARACTERS >> 20} MiB"))
        return None
    builder = _Builder(file, variables, found)
    try:
        root = builder.run(yaml.parse(file.text, Loader=_LOADER))
    except _Stop:
        return None
    except yaml.YAMLError as error:
        problem = _syntax_error(file, error)
        secrecy.hide_unread(file, builder.end, problem.span.end)
        found.add(problem)
        return None
    if root is None:
        found.add(codes.E000.at(Span(file, 0, 0), "the file is empty"))
    return root


def _syntax_error(file: SourceFile, error: yaml.YAMLError) -> Any:
    if isinstance(error, yaml.MarkedYAMLError):
        found = yaml_mistakes.explain(file.text, error)
        return codes.E000.at(Span(file, found.start, found.end), found.message, help=found.help)
    position = getattr(error, "position", 0)
    reason = getattr(error, "reason", str(error))
    return codes.E000.at(Span(file, position, position + 1), f"YAML does not parse: {reason}")
