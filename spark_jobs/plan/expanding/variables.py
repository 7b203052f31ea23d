"""Variables: `pipeline.vars` in all its forms, `declares` of transforms, and overrides of channels.

`docs/semantics/state.md`, "How variables are declared".
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from spark_jobs.cxl import decimals, types
from spark_jobs.cxl.builtin_members import MEMBERS
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics import codes, nearest
from spark_jobs.nodes.model import column_type, kind_of
from spark_jobs.plan.reading import reader, scalars
from spark_jobs.plan.reading.yaml_tree import Mapping, Node, Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingType
    from decimal import Decimal

    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.diagnostics.source import Span

#: The blocks of `vars` and the namespace that CXL reads each by.
NAMESPACES = {"static": "vars", "pipeline": "pipeline", "source": "source", "record": "record"}
#: The smallest and the largest number that CXL's Int holds.
_INTS = (-(2**63), 2**63 - 1)
_ALLOWED = (Kind.STRING, Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.BOOL, Kind.DATE, Kind.DATETIME)


@dataclass(frozen=True)
class Variable:
    """A declared variable: type, default (None: null until written), place; `layer` says which file gave the value."""

    type: types.Type
    default: Any
    span: Span
    layer: str = "pipeline"


@dataclass
class Variables:
    """All declared variables by namespace (`vars`, `pipeline`, `source`, `record`) and name.

    `per_source` has defaults that a channel gives for one source: (source, name) to value.
    """

    declared: dict[str, dict[str, Variable]] = field(
        default_factory=lambda: {"vars": {}, "pipeline": {}, "source": {}, "record": {}}
    )
    per_source: dict[tuple[str, str], Any] = field(default_factory=dict)

    def types(self, namespace: str) -> dict[str, types.Type]:
        """The types of a namespace; what has no default can be null."""
        return {
            name: variable.type if variable.default is not None or namespace == "config" else variable.type.or_null()
            for name, variable in self.declared.get(namespace, {}).items()
        }

    def defaults(self) -> dict[str, Any]:
        """Defaults by path: `vars.limit`; those of one source under `source.<name>@<source>`."""
        values = {
            f"{namespace}.{name}": variable.default
            for namespace, members in self.declared.items()
            for name, variable in members.items()
        }
        return values | {f"source.{name}@{source}": value for (source, name), value in self.per_source.items()}


def read(tree: Node | None, found: Diagnostics) -> Variables:
    """The variables of a `vars:` block."""
    variables = Variables()
    if not isinstance(tree, Mapping):
        return variables
    for key, entry in tree.entries.items():
        if key in NAMESPACES and _is_block(entry.value):
            assert isinstance(entry.value, Mapping)
            for name, inner in entry.value.entries.items():
                declare(variables, NAMESPACES[key], name, inner.value, inner.key, found)
        else:
            declare(variables, "vars", key, entry.value, entry.key, found)
    return variables


def _is_block(value: Node) -> bool:
    """True if this is a block of variables and not a variable that is called like a namespace."""
    return isinstance(value, Mapping) and not isinstance(value.get("type"), Scalar)


def declare(
    variables: Variables,
    namespace: str,
    name: str,
    value: Node,
    place: Span,
    found: Diagnostics,
    kind: types.Type | None = None,
) -> Variable | None:
    """Declare one variable from what is written for it: a scalar, or `{type, default}`.

    A number alone has the type that is given; the type of every other scalar follows from it.
    """
    label = "vars" if namespace == "vars" else f"vars.{namespace}"
    if name in MEMBERS.get(namespace, ()):
        message = f"`{name}` is a reserved ${namespace} member name and cannot be used as a variable"
        found.add(codes.E015.at(place, message, help="choose another name"))
        return None
    if not name.isidentifier():
        message = f"`{name}` is not a name for a variable"
        found.add(codes.E015.at(place, message, help="use letters, digits and underscores"))
        return None
    variable = _variable(f"{label}.{name}", value, place, found, kind)
    if variable is not None:
        members = variables.declared[namespace]
        if name in members:
            message = f"`${namespace}.{name}` is declared already, at {members[name].span}"
            found.add(codes.E015.at(place, message, help="declare it once and read it everywhere"))
        members[name] = variable
    return variable


def _variable(
    label: str, value: Node, place: Span, found: Diagnostics, of_numbers: types.Type | None
) -> Variable | None:
    if isinstance(value, Scalar):
        inferred = _inferred(value.value)
        if of_numbers is not None and inferred in (types.INT, types.FLOAT):
            inferred = of_numbers
        if inferred is None:
            found.add(
                codes.E015.at(
                    place, f"{label}: default value cannot be null", help="write `{type: …}` to leave it null"
                )
            )
            return None
        fits, converted = convert(value.value, inferred)
        if not fits:
            found.add(codes.E015.at(value.span, misfit(label, value.value, inferred)))
            return None
        return Variable(inferred, converted, place)
    if not isinstance(value, Mapping):
        found.add(codes.E015.at(place, f"{label}: a variable is a value or `{{type, default}}`"))
        return None
    for key in value.entries:
        if key not in ("type", "default", "description", "_notes"):
            found.add(reader.unknown_key(value, (key,), ["type", "default", "description"]))
    kind = _declared_type(label, value, place, found)
    if kind is None:
        return None
    default = value.entries.get("default")
    if default is None:
        return Variable(kind, None, place)
    fits, converted = convert(reader.data(default.value), kind)
    if not fits:
        found.add(
            codes.E015.at(reader.value_span(value, ("default",)), misfit(label, reader.data(default.value), kind))
        )
        return None
    return Variable(kind, converted, place)


def give(declared: Variables, given: MappingType[str, Any], found: Diagnostics) -> None:
    """Override values of `$vars`. Texts from the command line are parsed by the variables' types."""
    members = declared.declared["vars"]
    for name, value in given.items():
        known = members.get(name)
        if known is None:
            names = ", ".join(f"`{each}`" for each in members) or "none"
            help_text = nearest.hint(name, members) or f"variables here: {names}; declare it under `pipeline.vars`"
            found.add(codes.E015.at(None, f"--var {name}: the pipeline has no variable `{name}`", help=help_text))
            continue
        is_text = isinstance(value, str) and known.type.kind not in (Kind.STRING, Kind.DATE, Kind.DATETIME)
        read = scalars.resolve(value.strip()) if is_text else value
        fits, converted = convert(read, known.type)
        if fits:
            members[name] = replace(known, default=converted, layer="command line")
        else:
            message = f"--var {name}: expected {known.type.non_null()}, found `{value}`"
            found.add(codes.E015.at(None, message, help=f"it is declared at {known.span}"))


def misfit(label: str, value: Any, kind: types.Type) -> str:
    """The message for a default of another type."""
    if value is None:
        return f"{label}: default value cannot be null"
    if is_too_large(value, kind):
        return f"{label}: {kind_of(value)} is outside the range of {kind.kind} holds"
    return f"{label}: default value does not match declared type {kind.non_null()}: found {kind_of(value)}"


def _declared_type(label: str, value: Mapping, place: Span, found: Diagnostics) -> types.Type | None:
    if "type" not in value.entries:
        found.add(codes.E006.at(place, f"{label}: the key `type` is required", help="add `type:`"))
        return None
    try:
        kind = column_type(reader.data(value.entries["type"].value))
    except PydanticCustomError as error:
        found.add(codes.E007.at(reader.value_span(value, ("type",)), f"{label}: {error.message()}"))
        return None
    if kind.kind not in _ALLOWED:
        words = "string, int, float, decimal(12,2), bool, date, date_time"
        found.add(codes.E007.at(reader.value_span(value, ("type",)), f"{label}: a variable's type is one of {words}"))
        return None
    return kind.non_null()


def _inferred(value: Any) -> types.Type | None:
    match value:
        case bool():
            return types.BOOL
        case int():
            return types.INT
        case float():
            return types.FLOAT
        case str():
            return types.STRING
        case _:
            return None


def is_too_large(value: Any, kind: types.Type) -> bool:
    """True if a whole number is beyond the 64 bits of an Int, or beyond all Floats."""
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    if kind.kind is Kind.INT:
        return not _INTS[0] <= value <= _INTS[1]
    return kind.kind is Kind.FLOAT and abs(value) > sys.float_info.max


def convert(value: Any, kind: types.Type) -> tuple[bool, Any]:
    """True if a YAML value fits a declared type, and the value that CXL sees."""
    match kind.kind, value:
        case Kind.BOOL, bool():
            return True, value
        case ((Kind.INT | Kind.FLOAT | Kind.DECIMAL | Kind.STRING), bool()):
            return False, None
        case ((Kind.INT | Kind.FLOAT), int()) if is_too_large(value, kind):
            return False, None
        case Kind.INT, int():
            return True, int(value)
        case Kind.FLOAT, int() | float():
            return True, float(value)
        case Kind.DECIMAL, int() | float():
            number = _decimal(value, kind)
            return number is not None, number
        case Kind.STRING, str():
            return True, value
        case ((Kind.DATE | Kind.DATETIME), str()):
            return _moment(value, kind.kind)
        case _:
            return False, None


def _decimal(value: Any, kind: types.Type) -> Decimal | None:
    """A number of YAML with the digits that it is written with; None if the type would have to round or cut it."""
    return decimals.of_declared(getattr(value, "text", None) or repr(value), kind.precision, kind.scale)


def _moment(text: str, kind: Kind) -> tuple[bool, Any]:
    try:
        if kind is Kind.DATE:
            return True, date.fromisoformat(text.strip())
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return False, None
    return True, moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
