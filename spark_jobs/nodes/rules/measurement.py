"""Measurements of column values for rules: tasks collect them, and the driver merges and judges them.

All numbers are exact and do not depend on how records are split: totals are whole multiples of a unit of each type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from spark_jobs.cxl import decimals, types
from spark_jobs.nodes.rules.step import Completeness, DistinctCount, Freshness, Max, Mean, Measured, Min, Sum

if TYPE_CHECKING:
    from spark_jobs.nodes.rules.step import Bound

#: All doubles are whole multiples of 2^-1088.
FLOAT_BITS = 1088
#: The number of units in 1.
_UNITS = {types.Kind.INT: 1, types.Kind.FLOAT: 1 << FLOAT_BITS, types.Kind.DECIMAL: 10**decimals.MAX_DIGITS}
_EPOCH = datetime(1970, 1, 1)

Value: TypeAlias = "int | float | Decimal | Fraction | date"


@dataclass(slots=True)
class Measurement:
    """Statistics of some values.

    Args:
        records: the number of records.
        values: the number of records with a value.
        total: the sum of finite numbers, in units of the column's type: 1, 2^-1088 or 10^-38.
        special: the sum of NaN and infinities; 0 if there are none.
        least: the least value: a number, units of 10^-38, days since 1970, or microseconds since 1970.
        most: the largest value, in the same form.
        distinct: the number of distinct values.
        is_hidden: values must not be shown.
    """

    records: int = 0
    values: int = 0
    total: int = 0
    special: float = 0.0
    least: float | None = None
    most: float | None = None
    distinct: int = 0
    is_hidden: bool = False

    def merged_with(self, other: Measurement) -> Measurement:
        """The sum of two measurements. Their `distinct` values are taken to be disjoint."""
        least = [each for each in (self.least, other.least) if each is not None]
        most = [each for each in (self.most, other.most) if each is not None]
        return Measurement(
            self.records + other.records,
            self.values + other.values,
            self.total + other.total,
            self.special + other.special,
            min(least, default=None),
            max(most, default=None),
            self.distinct + other.distinct,
            self.is_hidden or other.is_hidden,
        )


def value(rule: Measured, found: Measurement) -> Value | None:
    """The value that a rule judges; None if no record has a value."""
    match rule:
        case Completeness():
            return Fraction(found.values, found.records) if found.records else None
        case DistinctCount():
            return found.distinct
        case Min():
            return _read(found.least, rule.type)
        case Max() | Freshness():
            return _read(found.most, rule.type)
        case Sum():
            return found.special or _number(Fraction(found.total, _UNITS[rule.type.kind]), rule.type)
        case Mean() if found.values:
            units = _UNITS[rule.type.kind] * found.values
            return found.special or _number(Fraction(found.total, units), rule.type)
        case _:
            return None


def _number(exact: Fraction, static: types.Type) -> Fraction | float:
    """A total as a number of its column's type: a total of doubles becomes the nearest double."""
    return _nearest(exact) if static.kind is types.Kind.FLOAT else exact


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _read(kept: float | None, static: types.Type) -> Value | None:
    """A stored least or largest value as a value of its type."""
    if kept is None:
        return None
    match static.kind:
        case types.Kind.DECIMAL:
            return Fraction(int(kept), _UNITS[types.Kind.DECIMAL])
        case types.Kind.DATE:
            return (_EPOCH + timedelta(days=kept)).date()
        case types.Kind.DATETIME:
            return _EPOCH + timedelta(microseconds=kept)
        case _:
            return kept


def is_broken(rule: Measured, found: Value | None, started: datetime) -> bool:
    """True if a value breaks its rule.

    Args:
        rule: the rule.
        found: the value; None if no record has one. Then no bound is broken, but freshness is.
        started: the start of the run, in UTC without a zone.
    """
    if isinstance(rule, Freshness):
        return found is None or age_s(found, started) > rule.max_age_s
    if found is None:
        return False
    is_within = (rule.least is None or _of(rule.least, found) <= found) and (  # type: ignore[operator]  # of one kind
        rule.most is None or found <= _of(rule.most, found)  # type: ignore[operator]
    )
    return not is_within


def _of(bound: Bound, found: Value) -> Value:
    """A bound in the type that it is compared with: next to a Float all numbers are Floats."""
    if isinstance(found, float):
        return _nearest(Fraction(bound))  # type: ignore[arg-type]  # numbers have numbers as bounds
    return bound if isinstance(bound, date) else Fraction(bound)


def age_s(latest: Value, started: datetime) -> float:
    """The age of a date or moment at the start of the run, in seconds. A date's age counts from its beginning."""
    assert isinstance(latest, date)
    moment = latest if isinstance(latest, datetime) else datetime(latest.year, latest.month, latest.day)
    return (started - moment).total_seconds()


def as_metric(found: Value | None) -> float | str | None:
    """A value for people and metrics: a number, or the text of a date or moment."""
    match found:
        case date():
            return found.isoformat()
        case Fraction():
            return found.numerator if found.denominator == 1 else float(found)
        case Decimal():
            return float(found)
        case float():
            return found if math.isfinite(found) else str(found)
        case _:
            return found
