"""Predicates on single columns from the filters at the beginning of a program, for pushdown into sources."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.cxl import typed
from spark_jobs.cxl.types import Kind
from spark_jobs.formats.typed.pruning import Comparison, Test
from spark_jobs.nodes import program_reads

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = (Kind.INT, Kind.FLOAT, Kind.STRING, Kind.DATE)
_OPERATORS = {
    typed.Operator.EQUAL: (Comparison.EQUAL, Comparison.EQUAL),
    typed.Operator.LESS: (Comparison.LESS, Comparison.GREATER),
    typed.Operator.LESS_EQUAL: (Comparison.LESS_EQUAL, Comparison.GREATER_EQUAL),
    typed.Operator.GREATER: (Comparison.GREATER, Comparison.LESS),
    typed.Operator.GREATER_EQUAL: (Comparison.GREATER_EQUAL, Comparison.LESS_EQUAL),
}


def predicates(program: typed.Program) -> tuple[Test, ...]:
    """The tests that a record has to pass before anything else happens to it; each alone filters it, and none fails.

    What follows them in a chain of `and` may fail. It is not evaluated where one of them is false; so they say
    nothing of columns with nulls then, of which `and` would look further.
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
        case typed.Binary(operator=operator, left=typed.Column() as column, right=typed.Literal() as literal):
            return _compared(column, literal, operator, 0)
        case typed.Binary(operator=operator, left=typed.Literal() as literal, right=typed.Column() as column):
            return _compared(column, literal, operator, 1)
    return None


def _compared(column: typed.Column, literal: typed.Literal, operator: typed.Operator, side: int) -> Test | None:
    """A comparison of values of one type. Comparisons with null are null; those with NaN are not pushed down."""
    kind, value = column.type.kind, literal.value
    if operator not in _OPERATORS or kind not in _KINDS or literal.type.kind is not kind or value is None:
        return None
    if kind is Kind.FLOAT and math.isnan(value):
        return None
    return Test(column.name, _OPERATORS[operator][side], value)
