"""Parameters of compositions: the layer that gives each its value, and its uses in bodies."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes.model import kind_of
from spark_jobs.plan.expanding import composition
from spark_jobs.plan.expanding.composition import ParameterConfig, ParameterType
from spark_jobs.plan.reading import interpolation, reader, scalars
from spark_jobs.plan.reading.yaml_tree import Entry, Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Mapping as MappingType

    from spark_jobs.cxl import types
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.expanding.channels import Channel
    from spark_jobs.plan.expanding.composition import Composition
    from spark_jobs.plan.reading.nodes import NodeSource

_TEMPLATE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


@dataclass(frozen=True)
class Layer:
    """A value that a layer gives, and where."""

    kind: str
    value: Any
    span: Span


@dataclass(frozen=True)
class Parameter:
    """A parameter of one call: its value, and all layers that give one, the strongest first."""

    type: types.Type
    value: Any
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True)
class Call:
    """A call of a composition and the layers that give its values; problems are reported.

    Args:
        node: the call.
        called: the composition.
        paths: what channels may call it: by its alias, by its name.
        channel: whose values go before the call's, or after them.
        refused: says why a path is refused, with help, or None.
        found: where problems go.
    """

    node: NodeSource
    called: Composition
    paths: tuple[str, ...]
    channel: Channel | None
    refused: Callable[[str], tuple[str, str] | None]
    found: Diagnostics

    def parameters(self) -> dict[str, Parameter]:
        """The parameters of the composition; undeclared, missing and unfit values are reported."""
        declared = self.called.signature.config_schema
        written = self.node.body if isinstance(self.node.body, Mapping) else None
        self._check_declared(written, declared, "config key", "parameters")
        for name, parameter in declared.items():
            if parameter.required and parameter.default is not None:
                message = f'parameter "{name}" is required and has a default'
                place = self.called.place("config_schema", name)
                self.found.add(codes.W102.at(place, message, help="drop one of the two"))
        blocks = (self.channel.fixed, self.channel.default) if self.channel else ({}, {})
        layers = {
            name: [*self._layers(name, blocks, written), *_default_layer(self.called, name, parameter)]
            for name, parameter in declared.items()
        }
        return self._resolved(declared, layers, "config", "parameter", "config parameter")

    def resources(self) -> dict[str, Parameter]:
        """The resources that the call hands over; a composition without `resources_schema` takes any."""
        given = self.node.tree.get("resources")
        written = given if isinstance(given, Mapping) else None
        if given is not None and written is None and reader.data(given) is not None:
            message = f"`resources`: expected a mapping of names to paths, found {kind_of(reader.data(given))}"
            self.found.add(codes.E007.at(reader.value_span(self.node.tree, ("resources",)), message))
        schema = self.called.signature.resources_schema
        if schema is None:
            names = written.entries if written else ()
            declared = {name: ParameterConfig(type=ParameterType.STRING) for name in names}
        else:
            declared = {
                name: ParameterConfig(type=ParameterType.PATH, required=each.required) for name, each in schema.items()
            }
        self._check_declared(written, declared, "resource", "resources")
        blocks = (self.channel.fixed_resources, self.channel.default_resources) if self.channel else ({}, {})
        layers = {name: self._layers(name, blocks, written) for name in declared}
        return self._resolved(declared, layers, "resources", "resource", "resource")

    def _check_declared(
        self, written: Mapping | None, declared: MappingType[str, ParameterConfig], word: str, words: str
    ) -> None:
        for name, entry in (written.entries if written else {}).items():
            if name not in declared and name != "_notes":
                message = f'composition node "{self.node.name}": the {word} "{name}" is not declared'
                hint = nearest.hint(name, declared) or f"its {words}: {', '.join(declared) or 'none'}"
                self.found.add(codes.E103.at(entry.key, message, help=hint))

    def _layers(
        self, name: str, blocks: tuple[dict[str, Entry], dict[str, Entry]], written: Mapping | None
    ) -> list[Layer]:
        """The values from the channel's `fixed`, the call, and the channel's `default`, in order of precedence."""
        return [
            *self._channel_layer("ChannelFixed", blocks[0], name),
            *_call_layer(written, name),
            *self._channel_layer("ChannelDefault", blocks[1], name),
        ]

    def _channel_layer(self, kind: str, block: MappingType[str, Entry], name: str) -> list[Layer]:
        for path in self.paths:
            entry = block.get(f"{path}.{name}")
            if entry is not None and self.channel is not None:
                self.channel.used.add(f"{path}.{name}")
                return [Layer(kind, reader.data(entry.value), entry.key)]
        return []

    def _resolved(
        self,
        declared: MappingType[str, ParameterConfig],
        given: MappingType[str, list[Layer]],
        block: str,
        word: str,
        title: str,
    ) -> dict[str, Parameter]:
        resolved: dict[str, Parameter] = {}
        for name, parameter in declared.items():
            layers, what = given[name], f'composition node "{self.node.name}": {word} "{name}"'
            if not layers and parameter.required:
                message = f'composition node "{self.node.name}": missing required {title} "{name}"'
                self.found.add(codes.E104.at(self.node.span, message, help=f"add `{block}: {{{name}: …}}`"))
            if parameter.type is ParameterType.PATH:
                _check_paths(what, layers, self.refused, self.found)
            resolved[name] = _checked(what, parameter, layers, self.found)
        return resolved


def _call_layer(written: Mapping | None, name: str) -> list[Layer]:
    entry = written.entries.get(name) if written else None
    return [Layer("Call", reader.data(entry.value), entry.key)] if entry else []


def _default_layer(called: Composition, name: str, parameter: ParameterConfig) -> list[Layer]:
    if parameter.default is None:
        return []
    return [Layer("CompositionDefault", parameter.default, called.place("config_schema", name, "default"))]


def _checked(what: str, parameter: ParameterConfig, layers: list[Layer], found: Diagnostics) -> Parameter:
    kind = parameter.kind
    checked: list[Layer] = []
    for layer in layers:
        problem, value = composition.parameter_problem(parameter, layer.value)
        if problem:
            message = f"{what}: {problem}"
            found.add(codes.E105.at(layer.span, message))
        else:
            checked.append(replace(layer, value=value))
    return Parameter(kind, checked[0].value if checked else None, tuple(checked))


def _check_paths(
    what: str, layers: list[Layer], refused: Callable[[str], tuple[str, str] | None], found: Diagnostics
) -> None:
    """Paths are checked where they are given, whatever the body does with them."""
    for layer in layers:
        problem = refused(layer.value) if isinstance(layer.value, str) else None
        if problem:
            message = f"{what}: {problem[0]}"
            found.add(codes.E_SEC_001.at(layer.span, message, help=problem[1]))


def substituted(node: Node, values: MappingType[str, Parameter], room: interpolation.CharacterBudget) -> Node:
    """A body node as it is written, with `{{ parameter }}` replaced by the parameters' values.

    Raises:
        interpolation.Full: there is no room for so much.
    """
    match node:
        case Scalar():
            return _filled(node, values, room)
        case Sequence():
            items = [substituted(item, values, room) for item in node.items]
            return node if items == node.items else Sequence(node.span, items, node.size)
        case Mapping():
            entries = {
                key: Entry(entry.key, substituted(entry.value, values, room)) for key, entry in node.entries.items()
            }
            changed = any(entries[key].value is not entry.value for key, entry in node.entries.items())
            return Mapping(node.span, entries, node.size) if changed else node


def _filled(node: Scalar, values: MappingType[str, Parameter], room: interpolation.CharacterBudget) -> Scalar:
    if "{{" not in node.text:
        return node
    text, edits = interpolation.replaced(
        _TEMPLATE,
        node.text,
        lambda match: _text(values[match.group(1)].value) if match.group(1) in values else match.group(),
        room,
    )
    if text == node.text:
        return node
    whole = _TEMPLATE.fullmatch(node.text.strip())
    value = values[whole.group(1)].value if whole and whole.group(1) in values else text
    if isinstance(value, Decimal):
        # Settings take numbers as YAML has them, with the digits that are written.
        value = scalars.resolve(_text(value))
    return replace(node, text=text, value=value, edits=(*node.edits, edits))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value).lower() if isinstance(value, bool) else str(value)
