"""Strict binary operators: one Python function per operator and pair of kinds.

`operation(operator, left, right)` picks the function for the static types; where a type is dynamic it picks one that
looks at the values. All functions take non-null values. `docs/semantics/cxl.md` has the rules.
"""

from __future__ import annotations

import math
import operator as python
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import decimals, failure, values
from spark_jobs.cxl.typed import Operator
from spark_jobs.cxl.types import Kind
from spark_jobs.cxl.values import MAX_INT, MIN_INT

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl import types


def add_ints(left: int, right: int) -> int:
    """Checked addition."""
    result = left + right
    if MIN_INT <= result <= MAX_INT:
        return result
    raise failure.overflow("addition")


def subtract_ints(left: int, right: int) -> int:
    """Checked subtraction."""
    result = left - right
    if MIN_INT <= result <= MAX_INT:
        return result
    raise failure.overflow("subtraction")


def multiply_ints(left: int, right: int) -> int:
    """Checked multiplication."""
    result = left * right
    if MIN_INT <= result <= MAX_INT:
        return result
    raise failure.overflow("multiplication")


def divide_ints(left: int, right: int) -> int:
    """Division that truncates toward zero."""
    if right == 0:
        raise failure.division_by_zero()
    result = abs(left) // abs(right)
    if (left < 0) is not (right < 0):
        return -result
    if result > MAX_INT:
        raise failure.overflow("division")
    return result


def modulo_ints(left: int, right: int) -> int:
    """The remainder, with the sign of the dividend."""
    if right == 0:
        raise failure.division_by_zero()
    if right == -1 and left == MIN_INT:
        raise failure.overflow("modulo")
    result = abs(left) % abs(right)
    return -result if left < 0 else result


def divide_floats(left: float, right: float) -> float:
    """Float division; a zero divisor is an error."""
    if right == 0:
        raise failure.division_by_zero()
    return left / right


def modulo_floats(left: float, right: float) -> float:
    """The Float remainder, with the sign of the dividend; a zero divisor is an error."""
    if right == 0:
        raise failure.division_by_zero()
    if math.isinf(left) or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


def negate_int(value: int) -> int:
    """Checked negation."""
    if value == MIN_INT:
        raise failure.overflow("negation")
    return -value


def negate_any(value: Any) -> Any:
    """Negation of a dynamic value: null where it is no number."""
    if value.__class__ is int:
        return negate_int(value)
    if value.__class__ is Decimal:
        return decimals.negate(value)
    return -value if value.__class__ is float else None


_INTS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.ADD: add_ints,
    Operator.SUBTRACT: subtract_ints,
    Operator.MULTIPLY: multiply_ints,
    Operator.DIVIDE: divide_ints,
    Operator.MODULO: modulo_ints,
}
_FLOATS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.ADD: python.add,
    Operator.SUBTRACT: python.sub,
    Operator.MULTIPLY: python.mul,
    Operator.DIVIDE: divide_floats,
    Operator.MODULO: modulo_floats,
}
_DECIMALS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.ADD: decimals.add,
    Operator.SUBTRACT: decimals.subtract,
    Operator.MULTIPLY: decimals.multiply,
    Operator.DIVIDE: decimals.divide,
    Operator.MODULO: decimals.modulo,
}
_COMPARISONS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: python.eq,
    Operator.NOT_EQUAL: python.ne,
    Operator.LESS: python.lt,
    Operator.LESS_EQUAL: python.le,
    Operator.GREATER: python.gt,
    Operator.GREATER_EQUAL: python.ge,
}
_ORDERED = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.STRING, Kind.DATE, Kind.DATETIME)


def _compare_any(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compared(left: Any, right: Any) -> Any:
        if not values.comparable(left, right):
            return False
        if left.__class__ is not right.__class__ and float in (left.__class__, right.__class__):
            left, right = float(left), float(right)
        return compare(left, right)

    return compared


def _calculate_any(operator: Operator) -> Callable[[Any, Any], Any]:
    on_ints, on_floats, on_decimals = _INTS[operator], _FLOATS[operator], _DECIMALS[operator]
    divides = operator in (Operator.DIVIDE, Operator.MODULO)

    def calculated(left: Any, right: Any) -> Any:
        kind, other = left.__class__, right.__class__
        if kind is int and other is int:
            return on_ints(left, right)
        if kind in _NUMBERS and other in _NUMBERS:
            if float in (kind, other):
                return on_floats(float(left), float(right))
            return on_decimals(_decimal(left), _decimal(right))
        if kind is str and other is str and operator is Operator.ADD:
            return left + right
        if divides and other in _NUMBERS and right == 0:
            raise failure.division_by_zero()
        return None

    return calculated


_NUMBERS = (int, float, Decimal)


def _decimal(value: int | Decimal) -> Decimal:
    return Decimal(value) if value.__class__ is int else value  # type: ignore[return-value]


def operation(operator: Operator, left: types.Type, right: types.Type) -> Callable[[Any, Any], Any]:
    """The function that an operator is for operands of these static types."""
    same = left.kind is right.kind
    if operator is Operator.EQUAL or operator is Operator.NOT_EQUAL:
        if same and (left.kind in _ORDERED or left.kind is Kind.BOOL):
            return _COMPARISONS[operator]
        return values.equal if operator is Operator.EQUAL else lambda a, b: not values.equal(a, b)
    if operator in _COMPARISONS:
        return _COMPARISONS[operator] if same and left.kind in _ORDERED else _compare_any(_COMPARISONS[operator])
    if same and left.kind is Kind.INT:
        return _INTS[operator]
    if same and left.kind is Kind.FLOAT:
        return _FLOATS[operator]
    if same and left.kind is Kind.DECIMAL:
        return _DECIMALS[operator]
    if same and left.kind is Kind.STRING and operator is Operator.ADD:
        return python.add
    return _calculate_any(operator)
