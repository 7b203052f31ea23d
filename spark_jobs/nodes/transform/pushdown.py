"""Predicates on single columns from the filters at the beginning of a program, for pushdown into sources."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from spark_jobs.cxl import typed
from spark_jobs.cxl.types import Kind
from spark_jobs.formats.typed.pruning import Comparison, Test
from spark_jobs.nodes import program_reads

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.STRING, Kind.DATE)
_OPERATORS = {
    typed.Operator.EQUAL: (Comparison.EQUAL, Comparison.EQUAL),
    typed.Operator.LESS: (Comparison.LESS, Comparison.GREATER),
    typed.Operator.LESS_EQUAL: (Comparison.LESS_EQUAL, Comparison.GREATER_EQUAL),
    typed.Operator.GREATER: (Comparison.GREATER, Comparison.LESS),
    typed.Operator.GREATER_EQUAL: (Comparison.GREATER_EQUAL, Comparison.LESS_EQUAL),
}


def predicates(program: typed.Program) -> tuple[Test, ...]:
    """The tests that a record must pass before anything else happens to it. Each alone may drop it, and none fails.

    Operands after them in a chain of `and` may fail, but are not evaluated where a test is false. They are evaluated
    where a test is null, so in that case tests on columns with nulls are left out.
    """
    return tuple(_tests(program))


def _tests(program: typed.Program) -> Iterator[Test]:
    for statement in program.statements:
        if not isinstance(statement, typed.Filter):
            return
        parts = program_reads.conjuncts(statement.predicate)
        known = [found for found in itertools.takewhile(bool, map(_test, parts)) if found is not None]
        is_whole = len(known) == len(parts)
        yield from known if is_whole else [replace(found, only_values=True) for found in known]
        if not is_whole:
            return


def _test(expression: typed.Expression) -> Test | None:
    match expression:
        case typed.Call(builtin="Any.is_null", arguments=(typed.Column(name=name),)):
            return Test(name, Comparison.IS_NULL)
        case typed.Not(operand=typed.Call(builtin="Any.is_null", arguments=(typed.Column(name=name),))):
            return Test(name, Comparison.IS_VALUE)
        case typed.Binary(operator=operator, left=left, right=right) if operator in _OPERATORS:
            return _compared(left, right, operator, 0) or _compared(right, left, operator, 1)
    return None


def _compared(given: typed.Expression, constant: typed.Expression, operator: typed.Operator, side: int) -> Test | None:
    """A comparison of a column with a constant. Comparisons with null are null; those with NaN are not pushed down.

    Both operands have one type, but a Decimal may be compared with an Int, and with a Float as a Float.
    """
    as_float = isinstance(given, typed.Widen) and given.type.kind is Kind.FLOAT
    column = given.operand if isinstance(given, typed.Widen) else given
    literal = constant.operand if isinstance(constant, typed.Widen) else constant
    if not isinstance(column, typed.Column) or not isinstance(literal, typed.Literal) or literal.value is None:
        return None
    kind, other, value = column.type.kind, literal.type.kind, literal.value
    if kind is Kind.DECIMAL and column.type.scale is not None:
        if other not in ((Kind.FLOAT,) if as_float else (Kind.DECIMAL, Kind.INT)):
            return None
        value = value if as_float else Decimal(value)
    elif column is not given or literal is not constant or kind not in _KINDS or other is not kind:
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    return Test(column.name, _OPERATORS[operator][side], value)
