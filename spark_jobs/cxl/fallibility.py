"""Decides which expressions can fail: one that cannot need not be evaluated if nothing reads it."""

from __future__ import annotations

from spark_jobs.cxl import tree_walk, typed
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.types import Kind

_SAFE = (
    typed.Literal,
    typed.Column,
    typed.Local,
    typed.System,
    typed.Now,
    typed.Not,
    typed.And,
    typed.Or,
    typed.Coalesce,
    typed.If,
    typed.Match,
    typed.Arm,
    typed.Index,
    typed.MapOf,
    typed.Closure,
)
_COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
#: Arithmetic that has a value for all operands: texts are joined, Floats overflow to an infinity.
_TOTAL = {Kind.STRING: frozenset("+"), Kind.FLOAT: frozenset("+-*")}


def may_fail(expression: typed.Expression) -> bool:
    """True if some record may make this expression fail; true where that is not known."""
    return any(may_fail_itself(node) for node in tree_walk.walk(expression))


def does_nothing(expression: typed.Expression) -> bool:
    """True if evaluating this expression for its own sake is in vain: it cannot fail and logs nothing."""
    return not logs(expression) and not may_fail(expression)


def logs(expression: typed.Expression) -> bool:
    """True if evaluating this expression may write a line of the log."""
    return any(isinstance(node, typed.Call) and node.builtin.endswith(".debug") for node in tree_walk.walk(expression))


def may_fail_itself(node: object) -> bool:
    """True if an expression may fail where its parts have values."""
    match node:
        case typed.Binary(operator=operator, left=left, right=right):
            if left.type.is_dynamic or right.type.is_dynamic:
                return True
            return operator not in _COMPARISONS and operator not in _TOTAL.get(node.type.kind, ())
        case typed.Widen(type=wanted):
            return wanted.kind is Kind.DECIMAL
        case typed.Negate(operand=operand):
            return operand.type.kind is not Kind.FLOAT
        case typed.Call(builtin=builtin, arguments=(receiver, *_)):
            if not isinstance(receiver, typed.Expression) or receiver.type.is_dynamic:
                return True
            # A rounded value may have too many digits.
            return receiver.type.kind is Kind.DECIMAL or declare.registry()[builtin].fails
        case _:
            return not isinstance(node, _SAFE)
