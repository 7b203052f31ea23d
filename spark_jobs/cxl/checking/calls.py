"""Checks calls of builtins against their declarations: name, receiver, number and types of arguments."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from spark_jobs.cxl import decimals, typed, types
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.checking import foreign, inlining, operators
from spark_jobs.cxl.dates import strftime
from spark_jobs.cxl.syntax import ast
from spark_jobs.cxl.types import Kind, Type
from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.builtins.declare import Builtin, Parameter
    from spark_jobs.cxl.checking.session import Session
    from spark_jobs.cxl.syntax.ast import Place

#: The meaning of literals that are checked, by the parameter's name.
_CHECKED = {"pattern": "regex pattern", "form": "date format", "number_format": "number pattern"}
_DATE_FORMATS = (strftime.complaint, strftime.reading_complaint)
#: How arguments are written that are often given as something else.
_WRITTEN = {"format": 'a format is a text: `.format("0.00")` for two decimal places, `.format("%Y-%m")` for a month'}
_CLOSURES = "closures only valid as arguments to .filter/.map/.find/.any/.flat_map"


@cache
def _by_name() -> dict[str, list[Builtin]]:
    found: dict[str, list[Builtin]] = {}
    for builtin in declare.registry().values():
        found.setdefault(builtin.name, []).append(builtin)
    return found


def overloads(name: str) -> list[Builtin]:
    """The builtins of this name, one per receiver kind."""
    found = _by_name()
    if sum(map(len, found.values())) != len(declare.registry()):
        # A builtin was declared since: a test's or a plugin's.
        _by_name.cache_clear()
        found = _by_name()
    return found.get(name, [])


def method(
    session: Session,
    receiver: typed.Expression,
    name: str,
    arguments: Sequence[ast.Expression],
    place: Place,
    name_place: Place,
) -> typed.Expression:
    """Check `receiver.name(arguments)`."""
    known = overloads(name)
    if not known:
        return _unknown(session, name, arguments, place, name_place)
    fitting = [one for one in known if declare.accepts(one.receiver, receiver.type)]
    if not fitting:
        _check_all(session, arguments)
        kinds = " or ".join(sorted({str(one.receiver.kind) for one in known}))
        return session.mistyped(
            f"`{name}` is a method of {kinds}, not of {receiver.type.kind}",
            name_place,
            _receiver_help(name, receiver.type),
        )
    shaped = [one for one in fitting if _complaint(one, arguments) is None]
    if not shaped:
        message, bad_place = _complaint(fitting[0], arguments) or ("", None)
        _check_all(session, arguments)
        return session.mistyped(message, bad_place or name_place, f"`{signature(fitting[0])}`")
    return _call(session, shaped, receiver, arguments, place)


def _check_all(session: Session, arguments: Sequence[ast.Expression]) -> None:
    """Find the mistakes inside arguments of a call that is refused anyway."""
    for argument in arguments:
        if not isinstance(argument, ast.Closure):
            session.check(argument)


def _unknown(
    session: Session, name: str, arguments: Sequence[ast.Expression], place: Place, name_place: Place
) -> typed.Expression:
    _check_all(session, arguments)
    written = None if name.lower() in _by_name() else foreign.method(name)
    if written is not None:
        help_text: str | None = f"write `{written}`" if not written.startswith("the ") else f"use {written}"
    elif overloads(name.lower()):
        help_text = f"names of methods are written in small letters: `.{name.lower()}(…)`"
    else:
        help_text = session.suggest(name, _by_name)
    session.unresolved(f"unknown method '{name}'", name_place, help_text)
    return typed.Literal(types.ANY, place, None)


def _receiver_help(name: str, receiver: Type) -> str | None:
    takes_text = any(one.receiver.kind is Kind.STRING for one in overloads(name))
    if takes_text and receiver.kind is Kind.ARRAY:
        return f"ask the elements: `.any(it => it == …)`, or `.map(it => it.{name}(…))`"
    if takes_text:
        return "convert the receiver with .to_string()"
    if any(one.receiver.is_numeric for one in overloads(name)) and receiver.kind is Kind.STRING:
        return "convert the receiver with .to_int(), .to_float() or .to_decimal()"
    if any(one.receiver.kind in (Kind.DATE, Kind.DATETIME) for one in overloads(name)) and receiver.kind is Kind.STRING:
        return "convert the receiver with .to_date() or .to_datetime()"
    return None


def signature(builtin: Builtin) -> str:
    """The signature of a builtin, such as `left(count: Int)`."""
    parts = []
    for index, parameter in enumerate(builtin.parameters):
        shown = (
            "it => …" if parameter.is_closure else f"{parameter.name}: {parameter.type.kind if parameter.type else ''}"
        )
        if builtin.variadic and index == len(builtin.parameters) - 1:
            shown += ", …"
        parts.append(shown if parameter.default is parameter.REQUIRED else f"[{shown}]")
    return f"{builtin.name}({', '.join(parts)})"


def _limits(builtin: Builtin) -> tuple[int, float]:
    required = sum(parameter.default is parameter.REQUIRED for parameter in builtin.parameters)
    return required, math.inf if builtin.variadic else len(builtin.parameters)


def _count(low: int, high: float) -> str:
    if low == high:
        return f"{low} argument{'' if low == 1 else 's'}" if low else "no arguments"
    return f"at least {low} argument{'' if low == 1 else 's'}" if high == math.inf else f"{low} to {high} arguments"


def _complaint(builtin: Builtin, arguments: Sequence[ast.Expression]) -> tuple[str, Place | None] | None:
    """A complaint about the number or form of a call's arguments, and its place."""
    low, high = _limits(builtin)
    if not low <= len(arguments) <= high:
        return f"`{builtin.name}` takes {_count(low, high)}, got {len(arguments)}", None
    for index, argument in enumerate(arguments):
        parameter = parameter_of(builtin, index)
        if parameter.is_closure and not isinstance(argument, ast.Closure):
            return f"`{builtin.name}` takes a closure", argument.place
        if not parameter.is_closure and isinstance(argument, ast.Closure):
            return _CLOSURES, argument.place
    return None


def parameter_of(builtin: Builtin, index: int) -> Parameter:
    """The parameter of an argument; the last one of a variadic builtin takes all that follow."""
    return builtin.parameters[min(index, len(builtin.parameters) - 1)]


def _call(
    session: Session,
    shaped: Sequence[Builtin],
    receiver: typed.Expression,
    arguments: Sequence[ast.Expression],
    place: Place,
) -> typed.Expression:
    element = receiver.type.element.or_null() if receiver.type.element else types.ANY
    checked: list[typed.Expression | typed.Closure] = [
        session.closure(argument, element) if isinstance(argument, ast.Closure) else session.check(argument)
        for argument in arguments
    ]
    builtin = next((one for one in shaped if _mismatch(one, checked) is None), None)
    if builtin is None:
        return _refuse_argument(session, shaped[0], checked, arguments)
    _check_literals(session, [builtin] if _is_chosen(builtin, receiver) else shaped, checked, arguments)
    if session.scope.date_header:
        checked = [_localized(session, builtin, index, argument) for index, argument in enumerate(checked)]
    if builtin.name == "catch" and isinstance(checked[0], typed.Expression):
        return operators.coalesce(receiver, checked[0], place)
    checked += [
        typed.Literal(
            (parameter.type or types.ANY) if parameter.default is not None else types.NULL, place, parameter.default
        )
        for parameter in builtin.parameters[len(checked) :]
        if parameter.default is not parameter.REQUIRED
    ]
    whole = _widen_together(builtin, [receiver, *checked])
    result = _scaled(_result(shaped, builtin, whole), builtin, whole)
    if result.scale is not None and result.scale > decimals.MAX_DIGITS:
        return session.mistyped(
            f"`{builtin.name}` gives {result.scale} digits after the point, and a Decimal has "
            f"{decimals.MAX_DIGITS} at most",
            place,
            f"write fewer: `.{builtin.name}(6)`",
        )
    return typed.Call(result, place, builtin.key, tuple(whole))


def _scaled(result: Type, builtin: Builtin, arguments: Sequence[typed.Expression | typed.Closure]) -> Type:
    """The type of a call with the scale that a literal argument says."""
    if result.kind is not Kind.DECIMAL:
        return result
    for index, argument in enumerate(arguments[1:]):
        if parameter_of(builtin, index).is_scale:
            is_known = isinstance(argument, typed.Literal) and argument.value.__class__ is int
            return types.Type(Kind.DECIMAL, result.nullable, scale=max(argument.value, 0) if is_known else None)  # type: ignore[union-attr]
    return result


def _localized(
    session: Session, builtin: Builtin, index: int, argument: typed.Expression | typed.Closure
) -> typed.Expression | typed.Closure:
    """A date format with the names of the pipeline's language in front."""
    is_format = parameter_of(builtin, index).check in _DATE_FORMATS
    if not is_format or not isinstance(argument, typed.Expression) or argument.type.kind is Kind.NULL:
        return argument
    names = session.scope.date_header
    if isinstance(argument, typed.Literal):
        return typed.Literal(types.STRING, argument.place, names + str(argument.value))
    header = typed.Literal(types.STRING, argument.place, names)
    return typed.Binary(argument.type, argument.place, typed.Operator.ADD, header, argument)


def _type_of(argument: typed.Expression | typed.Closure) -> Type:
    return argument.body.type if isinstance(argument, typed.Closure) else argument.type


def _result(shaped: Sequence[Builtin], builtin: Builtin, arguments: Sequence[typed.Expression | typed.Closure]) -> Type:
    given = [_type_of(argument) for argument in arguments]
    if not given[0].is_dynamic or given[0].kind is Kind.DECIMAL or builtin.receiver.kind in (Kind.ANY, given[0].kind):
        return builtin.result_type(given)
    # The receiver's type chooses the overload at run time. Values that fit no overload give null.
    result = builtin.result_type([builtin.receiver.or_null(), *given[1:]])
    for other in shaped:
        if other is not builtin:
            result = types.unify(result, other.result_type([other.receiver.or_null(), *given[1:]])) or types.ANY
    return result.or_null()


def _mismatch(builtin: Builtin, arguments: Sequence[typed.Expression | typed.Closure]) -> int | None:
    """The first argument whose type does not fit its parameter."""
    for index, argument in enumerate(arguments):
        if isinstance(argument, typed.Expression) and not parameter_of(builtin, index).accepts(argument.type):
            return index
    return None


def _refuse_argument(
    session: Session,
    builtin: Builtin,
    checked: Sequence[typed.Expression | typed.Closure],
    arguments: Sequence[ast.Expression],
) -> typed.Expression:
    index = _mismatch(builtin, checked) or 0
    parameter = parameter_of(builtin, index)
    wanted = " or ".join(str(one.kind) for one in (parameter.type, *parameter.others) if one)
    return session.mistyped(
        f"`{builtin.name}` takes {wanted} for `{parameter.name}`, got {_type_of(checked[index]).kind}",
        arguments[index].place,
        _WRITTEN.get(builtin.name, f"`{signature(builtin)}`"),
    )


def _is_chosen(builtin: Builtin, receiver: typed.Expression) -> bool:
    """True if a call is one of this overload; else the receiver's kind at run time decides."""
    if receiver.type.kind is Kind.DECIMAL:
        return True
    return not receiver.type.is_dynamic or builtin.receiver.kind in (Kind.ANY, receiver.type.kind)


def _check_literals(
    session: Session,
    shaped: Sequence[Builtin],
    checked: Sequence[typed.Expression | typed.Closure],
    arguments: Sequence[ast.Expression],
) -> None:
    """Check patterns, formats and scales that are literals now: at least one overload has to accept each."""
    for index, argument in enumerate(checked):
        if not isinstance(argument, typed.Literal) or argument.value.__class__ not in (str, int):
            continue
        complaints = []
        for parameter in (parameter_of(one, index) for one in shaped if _mismatch(one, checked) is None):
            complaint = parameter.check and parameter.check(argument.value)
            complaints.append((parameter.name, complaint))
        if complaints and all(complaint for _, complaint in complaints):
            name, complaint = complaints[0]
            session.mistyped(f"invalid {_CHECKED.get(name, name)}: {complaint}", arguments[index].place)
        elif not argument.value or not isinstance(argument.value, str):
            continue
        elif len(shaped) == 1 and parameter_of(shaped[0], index).check in _DATE_FORMATS:
            _warn_of_format(session, shaped[0], argument.value, arguments[index].place)


def _warn_of_format(session: Session, builtin: Builtin, form: str, place: Place) -> None:
    """Date formats by which every date is the same text, or no text a date."""
    help_text = "write codes: `%Y` is the year, `%m` the month, `%d` the day, `%H:%M:%S` the time"
    if "format" in builtin.name:
        if not strftime.compiled(form).fields:
            session.warn(
                codes.W209, f"the date format '{form}' has no code: it is what every date becomes", place, help_text
            )
    elif (gap := strftime.gap(form)) is not None:
        session.warn(codes.W209, f"by '{form}' no text is a date: {gap}", place, help_text)


def _widen_together(
    builtin: Builtin, arguments: Sequence[typed.Expression | typed.Closure]
) -> list[typed.Expression | typed.Closure]:
    """Ints become Floats for Float parameters, and beside Floats where a builtin takes numbers of either kind."""
    wanted = [builtin.receiver, *(parameter_of(builtin, i).type for i in range(len(arguments) - 1))]
    numeric = [i for i, of in enumerate(wanted) if of and of.kind is Kind.NUMERIC]
    mixed = any(_type_of(arguments[i]).kind is Kind.FLOAT for i in numeric)
    result = list(arguments)
    if not mixed and any(_type_of(arguments[i]).kind is Kind.DECIMAL for i in numeric):
        return _as_decimals(result, numeric)
    for index, of in enumerate(wanted):
        argument = arguments[index]
        if isinstance(argument, typed.Closure) or of is None:
            continue
        if of.kind is Kind.FLOAT or (mixed and index in numeric):
            result[index] = operators.widened(argument)
    return result


def _as_decimals(
    arguments: list[typed.Expression | typed.Closure], numeric: Sequence[int]
) -> list[typed.Expression | typed.Closure]:
    """Convert alternative values next to Decimals: Ints become Decimals, and all get one scale if it is known."""
    given = (arguments[i] for i in numeric)
    chosen = [one for one in given if isinstance(one, typed.Expression) and one.type.kind is not Kind.NULL]
    together = dict(zip(map(id, chosen), operators.meet(chosen)[0], strict=True))
    return [together.get(id(argument), argument) for argument in arguments]


def function(session: Session, node: ast.FunctionCall) -> typed.Expression:
    """`name(arguments)`: an aggregate, a function of the same module, or a mistake."""
    aggregates = declare.aggregates()
    if session.module and (sibling := session.module.functions.get(node.name)):
        return inlining.call(session, session.module, sibling, node.arguments, node.place)
    if node.name in aggregates:
        if session.aggregate:
            return session.aggregate(node)
        remedy = foreign.of_two(node) or "aggregate functions belong to aggregate nodes"
        return session.mistyped(f"aggregate function '{node.name}' {session.no_aggregates}", node.name_place, remedy)
    _check_all(session, [a for a in node.arguments if not isinstance(a, ast.Star)])
    shown = "value" if not node.arguments or not isinstance(node.arguments[0], ast.Name) else node.arguments[0].name
    small = node.name.lower()
    help_text = foreign.call(node)
    if help_text is None and overloads(small):
        rest = ", ".join("…" for _ in node.arguments[1:2])
        help_text = f"`{small}` is a method: write `{shown}.{small}({rest or '…' if rest else ''})`"
    elif help_text is None:
        help_text = foreign.as_method(node.name, shown)
    if help_text is None and small in aggregates and node.name != small:
        help_text = f"names of functions are written in small letters: `{small}(…)`"
    if help_text is None:
        names = [*aggregates, *(session.module.functions if session.module else ())]
        help_text = nearest.hint(node.name, names, "'")
    session.unresolved(f"unknown function '{node.name}'", node.name_place, help_text)
    return typed.Literal(types.ANY, node.place, None)
