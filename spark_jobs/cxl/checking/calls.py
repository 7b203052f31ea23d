"""Checks calls of builtins against their declarations: name, receiver, number and types of arguments."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.checking import inlining, operators
from spark_jobs.cxl.dates import strftime
from spark_jobs.cxl.syntax import ast
from spark_jobs.cxl.types import Kind, Type
from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.builtins.declare import Builtin, Parameter
    from spark_jobs.cxl.checking.session import Session
    from spark_jobs.cxl.syntax.ast import Place

#: What other languages call a method, and what to write instead.
_FOREIGN = {
    "fuzzy_match": "value.trim().lower() == other.trim().lower()",
    "strip": ".trim()",
    "lstrip": ".trim_start()",
    "rstrip": ".trim_end()",
    "ltrim": ".trim_start()",
    "rtrim": ".trim_end()",
    "len": ".length()",
    "size": ".length()",
    "count": ".length()",
    "to_upper": ".upper()",
    "uppercase": ".upper()",
    "toUpperCase": ".upper()",
    "ucase": ".upper()",
    "to_lower": ".lower()",
    "lowercase": ".lower()",
    "toLowerCase": ".lower()",
    "lcase": ".lower()",
    "substr": ".substring(start, length)",
    "slice": ".substring(start, length)",
    "startswith": ".starts_with(prefix)",
    "endswith": ".ends_with(suffix)",
    "includes": ".contains(part)",
    "replace_all": ".replace(old, new)",
    "lpad": ".pad_left(width, fill)",
    "rpad": ".pad_right(width, fill)",
    "zfill": '.pad_left(width, "0")',
    "match": ".matches(pattern)",
    "regex": ".matches(pattern)",
    "search": ".find(pattern)",
    "extract": ".capture(pattern, group)",
    "coalesce": "value ?? default",
    "if_null": "value ?? default",
    "ifnull": "value ?? default",
    "nvl": "value ?? default",
    "default": "value ?? default",
    "is_not_null": "not value.is_null()",
    "is_blank": ".trim().is_empty()",
    "typeof": ".type_of()",
    "int": ".to_int()",
    "to_integer": ".to_int()",
    "parse_int": ".try_int()",
    "to_number": ".to_float()",
    "float": ".to_float()",
    "str": ".to_string()",
    "as_string": ".to_string()",
    "toString": ".to_string()",
    "as_date": ".to_date()",
    "parse_date": ".to_date(format)",
    "to_timestamp": ".to_datetime()",
    "strftime": ".format_date(format)",
    "format_datetime": ".format_date(format)",
    "date_add": ".add_days(n)",
    "date_diff": ".diff_days(other)",
    "datediff": ".diff_days(other)",
    "add_weeks": ".add_days(7 * n)",
    "ceiling": ".ceil()",
    "absolute": ".abs()",
    "mod": "the operator `%`",
    "get": '["key"]',
    "has": 'not value["key"].is_null()',
    "delete": ".remove_field(key)",
    "put": ".set(path, value)",
    "all": "not values.any(it => not …)",
    "first": "[0]",
    "concat_ws": ".join(delimiter)",
    "char_length": ".length()",
    "initcap": ".title_case()",
    "proper": ".title_case()",
    "capitalize": ".title_case()",
    "regexp_replace": ".regex_replace(pattern, replacement)",
    "replace_regex": ".regex_replace(pattern, replacement)",
    "sub": ".regex_replace(pattern, replacement)",
    "gsub": ".regex_replace(pattern, replacement)",
    "regexp_extract": ".capture(pattern, group)",
    "regexp_like": ".find(pattern)",
    "regexp_matches": ".find(pattern)",
    "instr": ".contains(part)",
    "position": ".contains(part)",
    "charindex": ".contains(part)",
    "translate": ".replace(old, new)",
    "nullif": ".null_if(other)",
    "isnull": ".is_null()",
    "isna": ".is_null()",
    "notnull": "not value.is_null()",
    "notna": "not value.is_null()",
    "greatest": ".max(other)",
    "least": ".min(other)",
    "pow": ".power(exponent)",
    "sqrt": ".square_root()",
    "title": ".title_case()",
    "truncate": '.truncate_to("month")',
    "square": ".power(2)",
    "trunc": ".floor()",
    "sign": "if value < 0 then -1 else 1",
    "dateadd": ".add_days(n)",
    "timestampdiff": ".diff_days(other)",
    "date_sub": ".add_days(-n)",
    "months_between": ".diff_months(other)",
    "date_trunc": '.truncate_to("month")',
    "to_char": '.format("%Y-%m")',
    "date_format": '.format("%Y-%m")',
    "date_part": ".year()",
    "today": "now.to_date()",
    "current_date": "now.to_date()",
    "curdate": "now.to_date()",
    "getdate": "now",
    "current_timestamp": "now",
    "sysdate": "now",
    "row_number": "$window.row_number()",
    "rank": "$window.rank()",
    "lag": "$window.lag(column)",
    "lead": "$window.lead(column)",
    "try_cast": ".try_int()",
    "to_decimal": ".to_float()",
    "boolean": ".to_bool()",
    "date": ".to_date()",
    "hash": ".sha256()",
    "sha1": ".sha256()",
    "sha2": ".sha256()",
    "iif": "if condition then value else other",
    "decode": "match value { a => b, _ => c }",
    "case": "match { condition => value, _ => other }",
    "print": ".debug(label)",
}
#: What there is nothing for, and why.
_NOTHING = {
    "uuid": "a run that is repeated has to give the same records: make a key of columns, `value.sha256()`",
    "gen_random_uuid": "a run that is repeated has to give the same records: make a key of columns, `value.sha256()`",
    "random": "a run that is repeated has to give the same records",
    "rand": "a run that is repeated has to give the same records",
}


def foreign(name: str) -> str | None:
    """How CXL writes what another language calls a function; capitals do not count."""
    return _FOREIGN.get(name) or _FOREIGN.get(name.lower())


#: What literals that are looked at stand for, by the parameter's name.
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
    """`receiver.name(arguments)`."""
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
    written = None if name.lower() in _by_name() else foreign(name)
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
        return "convert the receiver with .to_int() or .to_float()"
    if any(one.receiver.kind in (Kind.DATE, Kind.DATETIME) for one in overloads(name)) and receiver.kind is Kind.STRING:
        return "convert the receiver with .to_date() or .to_datetime()"
    return None


def signature(builtin: Builtin) -> str:
    """How a builtin is called, `left(count: Int)`."""
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
    """What is wrong with the number and the shape of a call's arguments."""
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
    return typed.Call(_result(shaped, builtin, whole), place, builtin.key, tuple(whole))


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
    if not given[0].is_dynamic or builtin.receiver.kind in (Kind.ANY, given[0].kind):
        return builtin.result_type(given)
    # The overload is chosen by the receiver's kind at run time; what fits no overload is null.
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
    """Whether a call is one of this overload; else the receiver's kind at run time decides."""
    return not receiver.type.is_dynamic or builtin.receiver.kind in (Kind.ANY, receiver.type.kind)


def _check_literals(
    session: Session,
    shaped: Sequence[Builtin],
    checked: Sequence[typed.Expression | typed.Closure],
    arguments: Sequence[ast.Expression],
) -> None:
    """Check patterns and formats that are literals now: at least one overload has to accept each."""
    for index, argument in enumerate(checked):
        if not isinstance(argument, typed.Literal) or not isinstance(argument.value, str):
            continue
        complaints = []
        for parameter in (parameter_of(one, index) for one in shaped if _mismatch(one, checked) is None):
            complaint = parameter.check and parameter.check(argument.value)
            complaints.append((parameter.name, complaint))
        if complaints and all(complaint for _, complaint in complaints):
            name, complaint = complaints[0]
            session.mistyped(f"invalid {_CHECKED.get(name, name)}: {complaint}", arguments[index].place)
        elif len(shaped) == 1 and parameter_of(shaped[0], index).check in _DATE_FORMATS and argument.value:
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
    for index, of in enumerate(wanted):
        argument = arguments[index]
        if isinstance(argument, typed.Closure) or of is None:
            continue
        if of.kind is Kind.FLOAT or (mixed and index in numeric):
            result[index] = operators.widened(argument)
    return result


def _as_written(written: str, shown: str) -> str:
    """How CXL writes something, with what the argument is."""
    if written.startswith("the "):
        return f"use {written}"
    return f"write `{shown if written[0] in '.[' else ''}{written.replace('value', shown)}`"


def function(session: Session, node: ast.FunctionCall) -> typed.Expression:
    """`name(arguments)`: an aggregate, a function of the same module, or a mistake."""
    aggregates = declare.aggregates()
    if session.module and (sibling := session.module.functions.get(node.name)):
        return inlining.call(session, session.module, sibling, node.arguments, node.place)
    if node.name in aggregates:
        if session.aggregate:
            return session.aggregate(node)
        return session.mistyped(
            f"aggregate function '{node.name}' {session.no_aggregates}",
            node.name_place,
            "aggregate functions belong to aggregate nodes",
        )
    _check_all(session, [a for a in node.arguments if not isinstance(a, ast.Star)])
    shown = "value" if not node.arguments or not isinstance(node.arguments[0], ast.Name) else node.arguments[0].name
    small = node.name.lower()
    if overloads(small):
        rest = ", ".join("…" for _ in node.arguments[1:2])
        help_text: str | None = f"`{small}` is a method: write `{shown}.{small}({rest or '…' if rest else ''})`"
    elif (written := foreign(node.name)) is not None:
        help_text = _as_written(written, shown)
    elif small in aggregates and node.name != small:
        help_text = f"names of functions are written in small letters: `{small}(…)`"
    elif small in _NOTHING:
        help_text = _NOTHING[small]
    else:
        names = [*aggregates, *(session.module.functions if session.module else ())]
        help_text = nearest.hint(node.name, names, "'")
    session.unresolved(f"unknown function '{node.name}'", node.name_place, help_text)
    return typed.Literal(types.ANY, node.place, None)
