"""Types of operators, and of expressions whose branches have different types.

Operands that never match are errors. The common type of Int and Float branches is Float, of Ints and Decimals a Decimal
of the larger scale, of others `any`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from spark_jobs.cxl import decimals, typed, types
from spark_jobs.cxl.typed import Operator
from spark_jobs.cxl.types import Kind, Type
from spark_jobs.diagnostics import codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.checking.session import Session
    from spark_jobs.cxl.syntax.ast import Place

_UNKNOWN = (Kind.ANY, Kind.NULL)
_EQUALITY = (Operator.EQUAL, Operator.NOT_EQUAL)
_ORDER = (Operator.LESS, Operator.LESS_EQUAL, Operator.GREATER, Operator.GREATER_EQUAL)
_VERBS = {
    "+": ("add", "and"),
    "-": ("subtract", "and"),
    "*": ("multiply", "and"),
    "/": ("divide", "by"),
    "%": ("divide", "by"),
}


def widened(value: typed.Expression) -> typed.Expression:
    """An Int or Decimal expression as a Float; others as they are."""
    if value.type.kind not in (Kind.INT, Kind.DECIMAL):
        return value
    if isinstance(value, typed.Literal):
        return typed.Literal(types.FLOAT, value.place, float(value.value))
    return typed.Widen(Type(Kind.FLOAT, value.type.nullable), value.place, value)


def exact(value: typed.Expression, scale: int | None = None) -> typed.Expression:
    """An Int expression as a Decimal, and a Decimal with a larger scale; None is its own. Others are as they are."""
    kind = value.type.kind
    if kind is Kind.INT:
        scale = scale or 0
    elif kind is not Kind.DECIMAL or scale is None or value.type.scale == scale:
        return value
    wanted = Type(Kind.DECIMAL, value.type.nullable, scale=scale)
    if isinstance(value, typed.Literal) and (found := decimals.rounded(Decimal(value.value), scale)) is not None:
        return typed.Literal(wanted, value.place, found)
    return typed.Widen(wanted, value.place, value)


def _scales(values: Sequence[typed.Expression]) -> int | None:
    """The largest scale among Decimals and Ints, None where one is not known."""
    scales = [0 if value.type.kind is Kind.INT else value.type.scale for value in values if value.type.is_numeric]
    return None if None in scales else max(scale for scale in scales if scale is not None)


def meet(values: Sequence[typed.Expression]) -> tuple[list[typed.Expression], Type]:
    """Unify alternative values: returns them with their common type, `Any` if there is none."""
    result = values[0].type
    for value in values[1:]:
        result = types.unify(result, value.type) or types.ANY
    if any(value.type.kind is Kind.ANY for value in values):
        result = types.ANY
    if result.kind is Kind.FLOAT:
        return [widened(value) for value in values], result
    if result.kind is Kind.DECIMAL:
        scale = _scales(values)
        precision = result.precision if scale == result.scale else None
        found = [exact(value, scale) for value in values]
        return found, Type(Kind.DECIMAL, result.nullable, scale=scale, precision=precision)
    return list(values), result


def condition(session: Session, value: typed.Expression, what: str) -> None:
    """Report a value that can never be a condition, and one that never changes."""
    if value.type.kind not in (Kind.BOOL, *_UNKNOWN):
        session.mistyped(f"{what} must be type Bool, got {value.type.kind}", value.place, "use an explicit comparison")
    elif isinstance(value, typed.Literal) and isinstance(value.value, bool):
        session.warn(codes.W203, f"{what} is always {str(value.value).lower()}", value.place)


def binary(
    session: Session, symbol: str, left: typed.Expression, right: typed.Expression, place: Place
) -> typed.Expression:
    """Any infix operator over two checked operands."""
    if symbol == "??":
        return coalesce(left, right, place)
    if symbol in ("and", "or"):
        return _logical(session, symbol, left, right, place)
    operator = Operator(symbol)
    if operator in _EQUALITY or operator in _ORDER:
        return _comparison(session, operator, left, right, place)
    return _arithmetic(session, operator, left, right, place)


def coalesce(left: typed.Expression, right: typed.Expression, place: Place) -> typed.Expression:
    """`left ?? right`, and `left.catch(right)`."""
    (left, right), result = meet((left, right))
    if not right.type.may_be_null:
        result = result.non_null()
    return typed.Coalesce(result, place, left, right)


def _names(left: Type, right: Type) -> str:
    return f"{left.kind} and {right.kind}"


def _refuse(
    session: Session, operator: str, left: typed.Expression, right: typed.Expression, place: Place
) -> typed.Expression:
    help_text = "convert one operand — use .to_int() or .to_string()"
    kinds = {left.type.kind, right.type.kind}
    if kinds & {Kind.DATE, Kind.DATETIME}:
        help_text = "dates are compared with dates and moved with .add_days(n) and .diff_days(date)"
        if kinds == {Kind.DATE, Kind.DATETIME}:
            help_text = "convert one operand — use .to_date() or .to_datetime()"
        elif Kind.STRING in kinds:
            help_text = "write a date as #YYYY-MM-DD#, or convert the text with .to_date()"
    message = f"cannot apply '{operator}' to {_names(left.type, right.type)}"
    if operator in ("and", "or"):
        return session.mistyped(message, place, "both sides must be Bool: write a comparison")
    verb, joint = _VERBS.get(operator, ("compare", "and"))
    cannot = f"cannot {verb} {left.type.kind} {joint} {right.type.kind}"
    return session.mistyped(message, place, help_text, label=cannot)


def _logical(
    session: Session, symbol: str, left: typed.Expression, right: typed.Expression, place: Place
) -> typed.Expression:
    if any(side.type.kind not in (Kind.BOOL, *_UNKNOWN) for side in (left, right)):
        return _refuse(session, symbol, left, right, place)
    result = Type(Kind.BOOL, left.type.may_be_null or right.type.may_be_null)
    return (typed.And if symbol == "and" else typed.Or)(result, place, left, right)


def _is_null(value: typed.Expression) -> bool:
    return isinstance(value, typed.Literal) and value.type.kind is Kind.NULL


def _comparison(
    session: Session, operator: Operator, left: typed.Expression, right: typed.Expression, place: Place
) -> typed.Expression:
    one, other = left.type, right.type
    if _is_null(left) or _is_null(right):
        session.warn(
            codes.W200,
            f"comparison with null is always null: `{operator}` never finds it",
            place,
            "test for null with `.is_null()`",
        )
    known = one.kind not in _UNKNOWN and other.kind not in _UNKNOWN
    if known and not (one.kind is other.kind or (one.is_numeric and other.is_numeric)):
        return _refuse(session, operator, left, right, place)
    if operator in _ORDER and known and one.kind in (Kind.ARRAY, Kind.MAP):
        return _refuse(session, operator, left, right, place)
    if Kind.FLOAT in (one.kind, other.kind):
        left, right = widened(left), widened(right)
    return typed.Binary(Type(Kind.BOOL, one.may_be_null or other.may_be_null), place, operator, left, right)


def _arithmetic(
    session: Session, operator: Operator, left: typed.Expression, right: typed.Expression, place: Place
) -> typed.Expression:
    one, other = left.type, right.type
    if Kind.ANY in (one.kind, other.kind):
        return typed.Binary(types.ANY, place, operator, left, right)
    fits = one.is_numeric and other.is_numeric
    texts = operator is Operator.ADD and one.kind is other.kind is Kind.STRING
    if Kind.NULL in (one.kind, other.kind):
        # Null makes the result null whatever the other side is. A number or a text decides its type.
        known = other if one.kind is Kind.NULL else one
        says = known.is_numeric or (operator is Operator.ADD and known.kind is Kind.STRING)
        if known.kind is Kind.DECIMAL:
            known = types.DECIMAL
        return typed.Binary(known.or_null() if says else types.NULL, place, operator, left, right)
    if not fits and not texts:
        return _refuse(session, operator, left, right, place)
    nullable = one.may_be_null or other.may_be_null
    if types.unify(one, other).kind is Kind.DECIMAL:  # type: ignore[union-attr]  # numbers always meet
        return _decimal_arithmetic(session, operator, exact(left), exact(right), place)
    (left, right), result = meet((left, right))
    return typed.Binary(Type(result.kind, nullable), place, operator, left, right)


def _decimal_arithmetic(
    session: Session, operator: Operator, left: typed.Expression, right: typed.Expression, place: Place
) -> typed.Expression:
    """An operation on Decimals. The scale of the result is known if the operands' scales are."""
    scale: int | None = None
    if left.type.scale is not None and right.type.scale is not None:
        scale = max(left.type.scale, right.type.scale)
        if operator is Operator.DIVIDE:
            scale = max(scale, decimals.DIVISION_SCALE)
        elif operator is Operator.MULTIPLY:
            scale = left.type.scale + right.type.scale
            if scale > decimals.MAX_DIGITS:
                message = (
                    f"the product has {scale} digits after the point, and a Decimal has {decimals.MAX_DIGITS} at most"
                )
                return session.mistyped(message, place, "round a factor first: `.round(6)`")
    nullable = left.type.may_be_null or right.type.may_be_null
    return typed.Binary(Type(Kind.DECIMAL, nullable, scale=scale), place, operator, left, right)


def negate(session: Session, operand: typed.Expression, place: Place) -> typed.Expression:
    """Unary minus; of a literal it is a literal."""
    kind = operand.type.kind
    if kind not in _UNKNOWN and not operand.type.is_numeric:
        return session.mistyped(f"cannot apply unary '-' to {kind}", place, "only numbers have a sign")
    if isinstance(operand, typed.Literal) and operand.value is not None and operand.value != -(2**63):
        value = decimals.negate(operand.value) if kind is Kind.DECIMAL else -operand.value
        return typed.Literal(operand.type, place, value)
    return typed.Negate(operand.type, place, operand)


def invert(session: Session, operand: typed.Expression, place: Place) -> typed.Expression:
    """Check `not`."""
    kind = operand.type.kind
    if kind not in (Kind.BOOL, *_UNKNOWN):
        return session.mistyped(f"cannot apply 'not' to {kind}", place, "write a comparison")
    return typed.Not(Type(Kind.BOOL, operand.type.may_be_null), place, operand)
