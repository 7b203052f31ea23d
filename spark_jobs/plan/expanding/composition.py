"""Composition files: the signature under `_compose` and the body's nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from spark_jobs import limits
from spark_jobs.cxl import types
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes.model import (
    ColumnConfig,
    Columns,
    ColumnType,
    Config,
    Flag,
    Name,
    Number,
    Text,
    choice,
    column_type,
    decimals_are_exact,
    kind_of,
    unfit,
)
from spark_jobs.plan.reading import document, reader
from spark_jobs.plan.reading.yaml_tree import Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingType

    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.diagnostics.source import SourceFile, Span
    from spark_jobs.stores.location import FilePath

#: The keys by which a composition file is known.
_MARKS = ("_compose", "composition")


class ParameterType(StrEnum):
    """The types of parameters; a path is a text that is checked like every path."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    PATH = "path"


_TYPES = {
    ParameterType.STRING: types.STRING,
    ParameterType.INT: types.INT,
    ParameterType.FLOAT: types.FLOAT,
    ParameterType.BOOL: types.BOOL,
    ParameterType.PATH: types.STRING,
}


def _parameter_type(value: Any) -> ParameterType | types.Type:
    """A word of `ParameterType`, or a Decimal: `decimal(12,2)`, or the word alone where that is the exact type."""
    if isinstance(value, ParameterType | types.Type):
        return value
    word = value.strip().lower() if isinstance(value, str) else value
    if word in {*ParameterType}:
        return ParameterType(word)
    is_exact = word == "decimal" and decimals_are_exact()
    if is_exact or (isinstance(word, str) and word.startswith(("decimal(", "numeric("))):
        return column_type(word)
    words = [*ParameterType, "decimal(12,2)"]
    raise unfit(f"a parameter's type is one of {', '.join(words)}; found {kind_of(value)}")


_DECIMAL_PATTERN = r"^(decimal|numeric)\(\s*[0-9]+\s*(,\s*[0-9]+\s*)?\)$"
_ParameterType = Annotated[
    Any,
    BeforeValidator(_parameter_type),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": [*ParameterType, "decimal"]},
                {"type": "string", "pattern": _DECIMAL_PATTERN},
            ]
        }
    ),
]


class PortConfig(Config):
    """An input port: the columns that the body needs."""

    columns: Columns = Field(default_factory=list, alias="schema")
    description: Text | None = None
    required: Flag = False


def _reference(value: Any) -> Any:
    return {"ref": value} if isinstance(value, str) else value


class OutputPortConfig(Config):
    """An output port: the body node (or `node.port`) whose records it gives."""

    ref: Name
    description: Text | None = None


class ParameterConfig(Config):
    """A parameter of the composition."""

    type: _ParameterType
    required: Flag = False
    default: Any = None
    enum: list[Any] | None = None
    range: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = None
    description: Text | None = None

    @property
    def kind(self) -> types.Type:
        """The type of its values in programs."""
        return self.type if isinstance(self.type, types.Type) else _TYPES[self.type]


class ResourceKind(StrEnum):
    """The kinds of resources."""

    FILE = "file"


class ResourceConfig(Config):
    """A resource that calls hand over: a file."""

    kind: choice(ResourceKind) = ResourceKind.FILE  # type: ignore[valid-type]
    required: Flag = False
    description: Text | None = None


class ExposedConfig(Config):
    """A scoped variable that the body may read."""

    type: ColumnType


class ComposeConfig(Config):
    """`_compose:`."""

    name: Name
    description: Text | None = None
    inputs: dict[str, PortConfig] = Field(default_factory=dict)
    outputs: dict[str, Annotated[OutputPortConfig, BeforeValidator(_reference)]] = Field(default_factory=dict)
    config_schema: dict[str, ParameterConfig] = Field(default_factory=dict)
    resources_schema: dict[str, ResourceConfig] | None = None
    scoped_vars: dict[str, dict[str, ExposedConfig]] = Field(default_factory=dict)


class NamedParameterConfig(ParameterConfig):
    """A parameter in the form of the compositions chapter."""

    name: Name


class InterfaceConfig(Config):
    """`composition:`, the form of the compositions chapter: one input, one output, `params`."""

    name: Name
    description: Text | None = None
    requires: Columns = Field(default_factory=list)
    produces: Columns = Field(default_factory=list)
    params: list[NamedParameterConfig] = Field(default_factory=list)


@dataclass
class Composition:
    """A composition file, read; `places` finds parameters and ports in the file."""

    path: FilePath
    file: SourceFile
    tree: Mapping
    signature: ComposeConfig
    #: The body's nodes as they are written; each call reads them with its own parameters filled in.
    body: list[Node] = field(default_factory=list)
    #: The columns that the first output port is to have, with their places.
    produces: list[tuple[ColumnConfig, Span]] = field(default_factory=list)

    def place(self, *path: str | int) -> Span:
        """The place of a part of the signature."""
        return reader.locate(self.tree, ("_compose", *path))[1]


def load(
    path: FilePath, shown: str, base_dir: FilePath, variables: MappingType[str, str], found: Diagnostics
) -> Composition | None:
    """A composition file; None if it is not usable, which `found` says as E101."""
    problems = type(found)()
    file, tree = document.open_tree(path, shown, variables, problems, base_dir=base_dir, marks=_MARKS)
    signature = None
    if file is not None and tree is not None:
        if isinstance(tree, Mapping):
            signature = _signature(tree, problems)
        else:
            problems.add(
                codes.E101.at(reader.head(tree.span), "a composition file is a mapping with `_compose:` and `nodes:`")
            )
    for problem in problems:
        message = problem.message if problem.code is codes.E101 else f"composition file `{shown}`: {problem.message}"
        code = codes.E101 if problem.is_error else problem.code
        found.add(code.at(problem.span, message, help=problem.help, labels=problem.labels))
    if signature is None or problems.has_errors:
        return None
    assert file is not None
    assert isinstance(tree, Mapping)
    listed = tree.get("nodes")
    body = listed.items if isinstance(listed, Sequence) else []
    if not body:
        found.add(codes.E111.at(reader.head(tree.span), f"composition file `{shown}` has zero nodes"))
        return None
    if not signature.outputs:
        name = body[-1].get("name") if isinstance(body[-1], Mapping) else None
        last = name.text if isinstance(name, Scalar) else ""
        signature = signature.model_copy(update={"outputs": {"output": OutputPortConfig(ref=last or "?")}})
    return Composition(path, file, tree, signature, body, _produced(tree))


def _signature(tree: Mapping, problems: Diagnostics) -> ComposeConfig | None:
    for key in tree.entries:
        if key not in ("_compose", "composition", "nodes", "_notes"):
            problems.add(reader.unknown_key(tree, (key,), ["_compose", "nodes"]))
    header = tree.get("_compose")
    if header is not None:
        signature = reader.read(ComposeConfig, header, problems, key="_compose", place=tree.entries["_compose"].key)
        if signature is not None:
            _check_scopes(tree, signature, problems)
            _check_resources(tree, signature, problems)
        return signature
    interface = tree.get("composition")
    if interface is not None:
        read = reader.read(
            InterfaceConfig, interface, problems, key="composition", place=tree.entries["composition"].key
        )
        return _converted(read) if read else None
    message = "a composition file needs its signature under the key `_compose`"
    problems.add(
        codes.E101.at(reader.head(tree.span), message, help="add `_compose:` with `name`, `inputs`, `outputs`")
    )
    return None


def _check_scopes(tree: Mapping, signature: ComposeConfig, problems: Diagnostics) -> None:
    scopes = ("pipeline", "source", "record")
    for scope in signature.scoped_vars:
        if scope not in scopes:
            place = reader.locate(tree, ("_compose", "scoped_vars", scope))[1]
            hint = nearest.hint(scope, scopes) or f"scopes: {', '.join(scopes)}"
            problems.add(codes.E101.at(place, f"`{scope}` is not a scope of variables", help=hint))


def _check_resources(tree: Mapping, signature: ComposeConfig, problems: Diagnostics) -> None:
    """Settings name both as `{{ name }}`, so that a resource cannot be called like a parameter."""
    for name in signature.resources_schema or ():
        if name in signature.config_schema:
            place = reader.locate(tree, ("_compose", "resources_schema", name))[1]
            problems.add(codes.E101.at(place, f"the resource `{name}` has the name of a parameter", help="rename one"))


def _converted(interface: InterfaceConfig) -> ComposeConfig:
    parameters = {
        entry.name: ParameterConfig(**{key: value for key, value in entry if key != "name"})
        for entry in interface.params
    }
    return ComposeConfig(
        name=interface.name, inputs={"input": PortConfig(columns=interface.requires)}, config_schema=parameters
    )


def _produced(tree: Mapping) -> list[tuple[ColumnConfig, Span]]:
    """The columns under `produces` of `composition:`. They have been read before, so they are valid."""
    header = tree.get("composition")
    if header is None or tree.get("_compose") is not None:
        return []
    interface = InterfaceConfig.model_validate(reader.data(header))
    listed = interface.produces
    places = [reader.locate(tree, ("composition", "produces", index))[1] for index in range(len(listed))]
    return list(zip(listed, places, strict=True))


def parameter_problem(parameter: ParameterConfig, value: Any) -> tuple[str | None, Any]:
    """Why a value does not fit a parameter (None when it does), and the value that the body sees."""
    from spark_jobs.plan.expanding import variables

    kind = parameter.kind
    if isinstance(value, str) and len(value) > limits.PARAMETER_CHARACTERS:
        return f"the text has {len(value)} characters (max {limits.PARAMETER_CHARACTERS})", None
    fits, converted = variables.convert(value, kind)
    if variables.is_too_large(value, kind):
        return f"{kind_of(value)} is outside the range of {kind.kind} holds", None
    if not fits:
        return f"expected {str(parameter.type).lower()}, found {kind_of(value)}", None
    if parameter.enum is not None and converted not in [variables.convert(one, kind)[1] for one in parameter.enum]:
        allowed = ", ".join(f"`{one}`" for one in parameter.enum)
        return f"`{converted}` is none of {allowed}", None
    if parameter.range is not None and isinstance(converted, (int, float, Decimal)):
        low, high = parameter.range
        # A Decimal is compared with the digits that are written, and not with the nearest double.
        exact = [Decimal(repr(each)) if isinstance(converted, Decimal) else each for each in (low, high)]
        if not exact[0] <= converted <= exact[1]:
            return f"{converted} is out of range [{low:g}, {high:g}]", None
    return None, converted
