"""Expressions as Python closures of one row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import arithmetic, decimals, failure, typed, values
from spark_jobs.cxl.interpreter import calls
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from spark_jobs.cxl import engine


class Row:
    """A record on its way through a program.

    `column` gives an input value by name, `slots` are the values of the typed tree's locals, `fields` and `metas`
    what was emitted so far, `children` the records of `emit each` blocks (None before the first), `moment` is `now`
    once it was read.
    """

    __slots__ = ("children", "column", "context", "fields", "metas", "moment", "slots")

    def __init__(self, column: Callable[[str], Any], context: engine.EvaluationContext, slots: int) -> None:
        self.column = column
        self.context = context
        self.moment: datetime | None = None
        self.slots: list[Any] = [None] * slots
        self.fields: dict[str, Any] = {}
        self.metas: dict[str, Any] = {}
        self.children: list[tuple[dict[str, Any], dict[str, Any]]] | None = None


Compiled = Callable[[Row], Any]


def compile(expression: typed.Expression) -> Compiled:
    """A closure that gives the expression's value for a row, or raises `Failure`."""
    return _COMPILERS[type(expression)](expression)


def _literal(node: typed.Literal) -> Compiled:
    value = node.value
    return lambda row: value


def _column(node: typed.Column) -> Compiled:
    name = node.name
    return lambda row: row.column(name)


def _local(node: typed.Local) -> Compiled:
    slot = node.slot
    return lambda row: row.slots[slot]


def _system(node: typed.System) -> Compiled:
    path = node.path
    return lambda row: row.context.values.get(path)


def _now(node: typed.Now) -> Compiled:
    def read(row: Row) -> datetime:
        if row.moment is None:
            row.moment = datetime.now(UTC).replace(tzinfo=None)
        return row.moment

    return read


def _widen(node: typed.Widen) -> Compiled:
    operand = compile(node.operand)
    if node.type.kind is Kind.DECIMAL:
        return _widen_decimal(operand, node.type.scale)

    def widened(row: Row) -> Any:
        value = operand(row)
        return None if value is None else float(value)

    return widened


def _widen_decimal(operand: Compiled, scale: int | None) -> Compiled:
    def widened(row: Row) -> Any:
        value = operand(row)
        if value is None:
            return None
        number = Decimal(value) if value.__class__ is int else value
        found = number if scale is None else decimals.rounded(number, scale)
        if found is None:
            raise decimals.overflow("conversion")
        return found

    return widened


def _negate(node: typed.Negate) -> Compiled:
    operand = compile(node.operand)
    kind = node.operand.type.kind
    negate: Callable[[Any], Any] = (
        arithmetic.negate_int if kind is Kind.INT else (lambda v: -v) if kind is Kind.FLOAT else arithmetic.negate_any
    )

    def negated(row: Row) -> Any:
        value = operand(row)
        return None if value is None else negate(value)

    return negated


def _not(node: typed.Not) -> Compiled:
    operand = compile(node.operand)

    def inverted(row: Row) -> Any:
        value = operand(row)
        return False if value is True else True if value is False else None

    return inverted


def _binary(node: typed.Binary) -> Compiled:
    left, right = compile(node.left), compile(node.right)
    apply = arithmetic.operation(node.operator, node.left.type, node.right.type)
    if isinstance(node.right, typed.Literal) and node.right.value is not None:
        constant = node.right.value

        def with_constant(row: Row) -> Any:
            value = left(row)
            return None if value is None else apply(value, constant)

        return with_constant

    def applied(row: Row) -> Any:
        first = left(row)
        second = right(row)
        return None if first is None or second is None else apply(first, second)

    return applied


def _and(node: typed.And) -> Compiled:
    left, right = compile(node.left), compile(node.right)

    def conjunction(row: Row) -> Any:
        first = left(row)
        if first is False:
            return False
        second = right(row)
        if second is False:
            return False
        return True if first is True and second is True else None

    return conjunction


def _or(node: typed.Or) -> Compiled:
    left, right = compile(node.left), compile(node.right)

    def disjunction(row: Row) -> Any:
        first = left(row)
        if first is True:
            return True
        second = right(row)
        if second is True:
            return True
        return False if first is False and second is False else None

    return disjunction


def _coalesce(node: typed.Coalesce) -> Compiled:
    left, right = compile(node.left), compile(node.right)

    def coalesced(row: Row) -> Any:
        value = left(row)
        return right(row) if value is None else value

    return coalesced


def _if(node: typed.If) -> Compiled:
    condition, then, otherwise = compile(node.condition), compile(node.then), compile(node.otherwise)

    def chosen(row: Row) -> Any:
        return then(row) if condition(row) is True else otherwise(row)

    return chosen


#: Kinds whose literals can be found in a dict: equal keys are equal values.
_HASHED = (Kind.INT, Kind.STRING, Kind.DATE, Kind.DATETIME)


def _match(node: typed.Match) -> Compiled:
    if node.subject is None:
        return _match_guards(node)
    subject = compile(node.subject)
    arms, default = _arms(node)
    patterns = [pattern for pattern, _ in arms]
    if all(
        isinstance(p, typed.Literal) and node.subject.type.kind is p.type.kind and p.type.kind in _HASHED
        for p in patterns
    ):
        table: dict[Any, Compiled] = {}
        for pattern, value in arms:
            assert isinstance(pattern, typed.Literal)
            table.setdefault(pattern.value, value)
        return lambda row: table.get(subject(row), default)(row)
    tests = [(_is_null_literal(pattern), compile(pattern), value) for pattern, value in arms]

    def matched(row: Row) -> Any:
        sought = subject(row)
        for takes_null, pattern, value in tests:
            if takes_null:
                if sought is None:
                    return value(row)
                continue
            found = pattern(row)
            if sought is not None and found is not None and values.equal(sought, found):
                return value(row)
        return default(row)

    return matched


def _is_null_literal(pattern: typed.Expression) -> bool:
    return isinstance(pattern, typed.Literal) and pattern.value is None


def _arms(node: typed.Match) -> tuple[list[tuple[typed.Expression, Compiled]], Compiled]:
    """The arms before the first `_`, and the value if none of them matches."""
    arms: list[tuple[typed.Expression, Compiled]] = []
    for arm in node.arms:
        if arm.pattern is None:
            return arms, compile(arm.value)
        arms.append((arm.pattern, compile(arm.value)))
    return arms, lambda row: None


def _match_guards(node: typed.Match) -> Compiled:
    arms, default = _arms(node)
    tests = [(compile(guard), value) for guard, value in arms]

    def matched(row: Row) -> Any:
        for guard, value in tests:
            if guard(row) is True:
                return value(row)
        return default(row)

    return matched


def element(base: Any, index: Any) -> Any:
    """`base[index]` of a non-null base: an array's element, a map's value, or null if there is no such element."""
    if base.__class__ is dict:
        return base.get(index) if index.__class__ is str else None
    if base.__class__ is list and index.__class__ is int and 0 <= index < len(base):
        return base[index]
    return None


def _index(node: typed.Index) -> Compiled:
    base, index = compile(node.base), compile(node.index)

    def indexed(row: Row) -> Any:
        value = base(row)
        return None if value is None else element(value, index(row))

    return indexed


def _map_of(node: typed.MapOf) -> Compiled:
    entries = [(key, compile(value)) for key, value in zip(node.keys, node.values, strict=True)]
    return lambda row: {key: value(row) for key, value in entries}


def _call(node: typed.Call) -> Compiled:
    return calls.compile(node, compile)


def _window_call(node: typed.WindowCall) -> Compiled:
    raise TypeError(f"$window.{node.function} reached the interpreter: the window node computes it first")


def _windowed(node: typed.Windowed) -> Compiled:
    column, problem = node.column, node.failure

    def computed(row: Row) -> Any:
        failed = row.column(problem)
        if failed is not None:
            raise failure.decode(failed)
        return row.column(column)

    return computed


_COMPILERS: dict[type[typed.Expression], Callable[[Any], Compiled]] = {
    typed.Literal: _literal,
    typed.Column: _column,
    typed.Local: _local,
    typed.System: _system,
    typed.Now: _now,
    typed.Widen: _widen,
    typed.Negate: _negate,
    typed.Not: _not,
    typed.Binary: _binary,
    typed.And: _and,
    typed.Or: _or,
    typed.Coalesce: _coalesce,
    typed.If: _if,
    typed.Match: _match,
    typed.Index: _index,
    typed.MapOf: _map_of,
    typed.Call: _call,
    typed.WindowCall: _window_call,
    typed.Windowed: _windowed,
}
