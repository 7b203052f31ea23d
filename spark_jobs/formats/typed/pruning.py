"""Predicates for skipping the ranges of a file in which no record passes the first filter.

A reader receives the tests of that filter, compares them with the file's statistics of its ranges, and reports the
number of records that it skips. They count as read and filtered.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any


class Comparison(StrEnum):
    """The comparison of a predicate; a null passes `IS_NULL` alone."""

    EQUAL = "=="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    IS_NULL = "is null"
    IS_VALUE = "is not null"


@dataclass(frozen=True)
class Test:
    """A predicate on the value of a column. It cannot fail, whatever the value.

    Args:
        column: the declared column.
        comparison: the operator.
        value: a value of the column's type to compare with.
        only_values: whether the test proves nothing for ranges with nulls: for a null, the filter goes on to another
            operand, which may fail.
    """

    column: str
    comparison: Comparison
    value: Any = None
    only_values: bool = False

    def __str__(self) -> str:
        if self.comparison in (Comparison.IS_NULL, Comparison.IS_VALUE):
            return f"{self.column} {self.comparison}"
        value = f"{self.value:f}d" if isinstance(self.value, Decimal) else repr(self.value)
        return f"{self.column} {self.comparison} {value}"


@dataclass(frozen=True)
class Known:
    """The statistics of a column in a range.

    Args:
        rows: how many records there are.
        nulls: how many have no value; None where that is not known.
        lowest: no value is less; None where nothing is known. NaN is not among the values that this speaks of.
        highest: no value is greater; None where nothing is known.
    """

    rows: int
    nulls: int | None
    lowest: Any = None
    highest: Any = None


def can_skip(test: Test, value: Any, known: Known) -> bool:
    """Whether no record of a range passes a test.

    Args:
        test: the test.
        value: the test's value, as the statistics spell values of the column.
        known: the statistics of the column in the range.
    """
    if test.comparison is Comparison.IS_NULL:
        return known.nulls == 0
    if test.only_values and known.nulls != 0:
        return False
    if known.nulls == known.rows:
        return True
    if test.comparison is Comparison.IS_VALUE or known.lowest is None or known.highest is None:
        return False
    match test.comparison:
        case Comparison.EQUAL:
            return bool(value < known.lowest or value > known.highest)
        case Comparison.LESS:
            return bool(known.lowest >= value)
        case Comparison.LESS_EQUAL:
            return bool(known.lowest > value)
        case Comparison.GREATER:
            return bool(known.highest <= value)
        case _:
            return bool(known.highest < value)
