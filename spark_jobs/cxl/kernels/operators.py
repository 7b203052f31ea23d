"""Arrow kernels of the strict operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns, typed, types, values
from spark_jobs.cxl.kernels.frames import Evaluate, Frame, as_array, guarded
from spark_jobs.cxl.typed import Operator
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl.kernels.compiler import Compiler

_COMPARISONS = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_EQUAL: pc.greater_equal,
}
_INTS = {Operator.ADD: pc.add_checked, Operator.SUBTRACT: pc.subtract_checked, Operator.MULTIPLY: pc.multiply_checked}
_FLOATS = {Operator.ADD: pc.add, Operator.SUBTRACT: pc.subtract, Operator.MULTIPLY: pc.multiply}
_ORDERED = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.STRING, Kind.DATE, Kind.DATETIME)
#: Kinds that are compared exactly, also with one another.
_EXACT = {Kind.INT, Kind.DECIMAL}


def obstacle(node: typed.Binary) -> str | None:
    """Why a binary expression has no kernel."""
    left, right = node.left.type, node.right.type
    if Kind.NULL in (left.kind, right.kind):
        # A null operand makes the result null; the other side is still evaluated, for its errors.
        return None
    for side in (left, right):
        if side.is_dynamic:
            return f"an operand's type is known at run time only ({side})"
    if {left.kind, right.kind} == _EXACT and node.operator in _COMPARISONS:
        return None
    if left.kind is not right.kind:
        return f"{left.kind} and {right.kind} are compared value by value"
    if left.kind not in _ORDERED and not (
        left.kind is Kind.BOOL and node.operator in (Operator.EQUAL, Operator.NOT_EQUAL)
    ):
        return f"{left.kind} values are compared one by one"
    if node.operator not in _COMPARISONS and left.kind in (Kind.DATE, Kind.DATETIME):
        return f"{node.operator} of {left.kind} values is always null"
    return None


def binary(node: typed.Binary, compiler: Compiler) -> Evaluate:
    """A strict operator: both sides, null where one is."""
    if node.operator is Operator.ADD and node.type.kind is Kind.STRING:
        return _concatenation(node, compiler)
    left = compiler.compile(node.left, node.right.type)
    right = compiler.compile(node.right, node.left.type)
    result = values.arrow_type(node.type)
    if Kind.NULL in (node.left.type.kind, node.right.type.kind):

        def nothing(frame: Frame) -> Any:
            left(frame)
            right(frame)
            return pa.nulls(frame.count, result)

        return nothing
    apply = _kernel(node, result)
    return lambda frame: apply(frame, left(frame), right(frame))


def _concatenation(node: typed.Binary, compiler: Compiler) -> Evaluate:
    """A chain of `+` between texts, joined once; null where one of them is."""
    chain: list[typed.Expression] = []
    rest: typed.Expression = node
    while _is_concatenation(rest) and (rest is node or compiler.analysis.facts(rest).key not in compiler.repeated):
        assert isinstance(rest, typed.Binary)
        chain.append(rest.right)
        rest = rest.left
    parts = [compiler.compile(part, types.STRING) for part in (rest, *reversed(chain))]

    def joined(frame: Frame) -> Any:
        texts = [part(frame) for part in parts]
        return as_array(pc.binary_join_element_wise(*texts, ""), frame.count)

    return joined


def _is_concatenation(node: typed.Expression) -> bool:
    return (
        isinstance(node, typed.Binary)
        and node.operator is Operator.ADD
        and node.type.kind is Kind.STRING
        and not obstacle(node)
    )


def _kernel(node: typed.Binary, result: pa.DataType) -> Callable[[Frame, Any, Any], Any]:
    operator, kind = node.operator, node.left.type.kind
    if Kind.DECIMAL in (kind, node.right.type.kind):
        return _of_decimals(node)
    if operator in _COMPARISONS:
        compare = _COMPARISONS[operator]
        return lambda frame, left, right: compare(left, right)
    if operator in (Operator.DIVIDE, Operator.MODULO):
        return _division(operator, kind, result)
    if kind is Kind.FLOAT:
        calculate = _FLOATS[operator]
        return lambda frame, left, right: calculate(left, right)
    return _checked(operator)


def _of_decimals(node: typed.Binary) -> Callable[[Frame, Any, Any], Any]:
    """An operation on Decimals and Ints, each with its own scale. Results that are no Decimal are marked."""
    operator, scale = node.operator, node.type.scale
    if operator in _COMPARISONS:
        return lambda frame, left, right: decimal_columns.compared(operator, left, right, frame.count)
    assert scale is not None

    def calculate(frame: Frame, left: Any, right: Any) -> Any:
        found, failed = decimal_columns.calculated(operator, left, right, frame.count, scale)
        if failed is not None:
            frame.mark(pa.array(failed))
        return found

    return calculate


def _checked(operator: Operator) -> Callable[[Frame, Any, Any], Any]:
    """Int arithmetic: Arrow's checked kernel; where that raises, the wrapped result with suspicious rows marked."""
    checked, wrapping = _INTS[operator], _FLOATS[operator]

    def calculate(frame: Frame, left: Any, right: Any) -> Any:
        try:
            return checked(left, right)
        except pa.ArrowInvalid:
            bad = as_array(_suspicious(operator, left, right), frame.count)
            frame.mark(bad)
            return pc.if_else(bad, pa.scalar(None, pa.int64()), wrapping(left, right))

    return calculate


def _suspicious(operator: Operator, left: Any, right: Any) -> Any:
    """The rows whose result is near or beyond the bounds of 64 bits, by Float arithmetic; the interpreter is exact."""
    floats = [pc.cast(side, pa.float64(), safe=False) for side in (left, right)]
    return pc.fill_null(pc.greater_equal(pc.abs(_FLOATS[operator](*floats)), 2.0**63 - 2.0**12), False)


def _division(operator: Operator, kind: Kind, result: pa.DataType) -> Callable[[Frame, Any, Any], Any]:
    if kind is Kind.INT:
        divide = pc.divide_checked if operator is Operator.DIVIDE else _remainder
    else:
        divide = pc.divide if operator is Operator.DIVIDE else _float_remainder
    none = pa.scalar(None, result)

    def divided(frame: Frame, left: Any, right: Any) -> Any:
        zero = pc.fill_null(pc.equal(right, 0), False)
        if pc.any(zero, min_count=0).as_py():
            bad = pc.and_(zero, pc.is_valid(left))
            frame.mark(bad if isinstance(bad, pa.Array) else pa.repeat(bad, frame.count))
            right = pc.if_else(zero, none, right)
        return guarded(frame, divide, [left, right], result)

    return divided


def _remainder(left: Any, right: Any) -> Any:
    return pc.subtract(left, pc.multiply(pc.divide_checked(left, right), right))


def _float_remainder(left: Any, right: Any) -> Any:
    """`fmod`, which Arrow does not have; nulls travel as NaN and come back by the mask."""
    known = pc.and_(pc.is_valid(left), pc.is_valid(right))
    with np.errstate(invalid="ignore"):
        remainder = np.fmod(_floats(left), _floats(right))
    return pc.if_else(known, pa.array(remainder, pa.float64()), pa.scalar(None, pa.float64()))


def _floats(side: Any) -> Any:
    if isinstance(side, pa.Scalar):
        return side.as_py() if side.is_valid else np.nan
    return side.to_numpy(zero_copy_only=False)


def negate(node: typed.Negate, compiler: Compiler) -> Evaluate:
    """Unary minus; the overflow of an Int marks its row as bad."""
    operand = compiler.compile(node.operand, types.INT)
    if node.type.kind in (Kind.FLOAT, Kind.DECIMAL):
        return lambda frame: pc.negate(operand(frame))
    return lambda frame: guarded(frame, pc.negate_checked, [operand(frame)], pa.int64())
