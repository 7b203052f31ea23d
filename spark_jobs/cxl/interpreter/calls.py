"""Calls of builtins as Python closures: null rules, the choice among overloads, and arguments of dynamic types.

A dynamic receiver of the wrong kind gives null, a dynamic argument of the wrong kind counts as null; only strict
conversions fail (`docs/semantics/cxl.md`, "Values of the wrong kind").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from spark_jobs.cxl import typed, values
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.builtins.declare import Builtin, Parameter
from spark_jobs.cxl.types import Kind

Compiled = Callable[[Any], Any]
Conversion = Callable[[Any], Any]


def compile(node: typed.Call, expression: Callable[[typed.Expression], Compiled]) -> Compiled:
    """A closure that gives the call's value for a row; `expression` compiles the arguments."""
    builtin = declare.registry()[node.builtin]
    arguments = [_argument(argument, expression) for argument in node.arguments]
    receiver = node.arguments[0]
    assert isinstance(receiver, typed.Expression)
    if (
        receiver.type.is_dynamic
        and builtin.receiver.kind is not Kind.ANY
        and receiver.type.kind is not builtin.receiver.kind
    ):
        call = _dispatched(node, builtin, arguments)
    else:
        call = bind(builtin, node.arguments, arguments)
    return _as_float(call) if node.type.kind is Kind.FLOAT else call


def _argument(
    argument: typed.Expression | typed.Closure, expression: Callable[[typed.Expression], Compiled]
) -> Compiled:
    if not isinstance(argument, typed.Closure):
        return expression(argument)
    body, slot = expression(argument.body), argument.slot

    def closure(row: Any) -> Callable[[Any], Any]:
        slots = row.slots

        def call(item: Any) -> Any:
            slots[slot] = item
            return body(row)

        return call

    return closure


def _as_float(call: Compiled) -> Compiled:
    """An expression whose static type is Float has a Float value, also where the body returns another number."""

    def widened(row: Any) -> Any:
        value = call(row)
        return float(value) if value.__class__ is int or value.__class__ is Decimal else value

    return widened


def parameter_of(builtin: Builtin, index: int) -> Parameter:
    """The parameter of the argument at this place after the receiver; a variadic one takes all that follow."""
    return builtin.parameters[min(index, len(builtin.parameters) - 1)]


def conversion(parameter: Parameter, argument: typed.Expression | typed.Closure) -> Conversion | None:
    """The conversion that makes a dynamic argument fit, with null for the wrong kind.

    None if the type is known to fit.
    """
    if isinstance(argument, typed.Closure) or parameter.type is None or parameter.type.kind is Kind.ANY:
        return None
    wanted = parameter.type.kind
    given = argument.type.kind
    if (
        not argument.type.is_dynamic
        or given is wanted
        or given is Kind.NULL
        or (wanted, given) == (Kind.NUMERIC, Kind.NUMERIC)
    ):
        return None
    if wanted is Kind.INT and not parameter.exact:
        return _int_argument
    kinds = {kind for one in (parameter.type, *parameter.others) for kind in _members(one.kind)}
    return lambda value: value if values.kind_of(value) in kinds else None


def _members(kind: Kind) -> tuple[Kind, ...]:
    return (Kind.INT, Kind.FLOAT, Kind.DECIMAL) if kind is Kind.NUMERIC else (kind,)


def _int_argument(value: Any) -> int | None:
    """A dynamic argument where an Int is wanted: other numbers are cut toward zero and saturate, NaN is 0."""
    if value.__class__ is int:
        return value
    if value.__class__ is not float and value.__class__ is not Decimal:
        return None
    if value != value:
        return 0
    return values.MIN_INT if value <= values.MIN_INT else values.MAX_INT if value >= values.MAX_INT else int(value)


def bind(
    builtin: Builtin, nodes: Sequence[typed.Expression | typed.Closure], arguments: Sequence[Compiled]
) -> Compiled:
    """The call of one overload: arguments evaluated from left to right, converted, and the null rule applied."""
    conversions = [conversion(parameter_of(builtin, i), node) for i, node in enumerate(nodes[1:])]
    fitted = [arguments[0], *(_converted(a, c) if c else a for a, c in zip(arguments[1:], conversions, strict=True))]
    return _NULL_RULES[builtin.nulls](builtin.body, fitted)


def _converted(argument: Compiled, convert: Conversion) -> Compiled:
    def converted(row: Any) -> Any:
        value = argument(row)
        return None if value is None else convert(value)

    return converted


def _propagating(body: Callable[..., Any], arguments: list[Compiled]) -> Compiled:
    if len(arguments) == 1:
        only = arguments[0]

        def one(row: Any) -> Any:
            value = only(row)
            return None if value is None else body(value)

        return one
    if len(arguments) == 2:
        first, second = arguments

        def two(row: Any) -> Any:
            value, other = first(row), second(row)
            return None if value is None or other is None else body(value, other)

        return two

    def many(row: Any) -> Any:
        found = [argument(row) for argument in arguments]
        return None if None in found else body(*found)

    return many


def _receiving(body: Callable[..., Any], arguments: list[Compiled]) -> Compiled:
    receiver, *rest = arguments

    def call(row: Any) -> Any:
        value = receiver(row)
        others = [argument(row) for argument in rest]
        return None if value is None else body(value, *others)

    return call


def _handling(body: Callable[..., Any], arguments: list[Compiled]) -> Compiled:
    return lambda row: body(*[argument(row) for argument in arguments])


_NULL_RULES: dict[str, Callable[[Callable[..., Any], list[Compiled]], Compiled]] = {
    "propagate": _propagating,
    "receiver": _receiving,
    "handle": _handling,
}


def fits(builtin: Builtin, arguments: Sequence[typed.Expression | typed.Closure]) -> bool:
    """True if arguments (without the receiver) have the number and the shape of an overload's parameters."""
    if len(arguments) > len(builtin.parameters) and not builtin.variadic:
        return False
    required = sum(parameter.default is Parameter.REQUIRED for parameter in builtin.parameters)
    return len(arguments) >= required and all(
        isinstance(argument, typed.Closure) is parameter_of(builtin, i).is_closure
        for i, argument in enumerate(arguments)
    )


def _dispatched(node: typed.Call, builtin: Builtin, arguments: list[Compiled]) -> Compiled:
    """The overload by the receiver's kind at run time; null where none is for it."""
    overloads = [one for one in declare.overloads(builtin.name) if fits(one, node.arguments[1:])]
    receiver = arguments[0]
    # The receiver is evaluated once, so overloads get it through a cell instead of evaluating it again.
    cell: list[Any] = [None]
    nodes = node.arguments
    by_kind: dict[Kind, Compiled] = {}
    for overload in overloads:
        call = bind(overload, nodes, [lambda row: cell[0], *arguments[1:]])
        for kind in _members(overload.receiver.kind):
            by_kind[kind] = call

    def dispatched(row: Any) -> Any:
        value = receiver(row)
        if value is None:
            for argument in arguments[1:]:
                argument(row)
            return None
        call = by_kind.get(values.kind_of(value))
        if call is None:
            for argument in arguments[1:]:
                argument(row)
            return None
        cell[0] = value
        return call(row)

    return dispatched
