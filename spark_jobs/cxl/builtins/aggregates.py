"""The aggregate functions, each in one place: its types, its meaning, its kernels, its documentation.

The classes define the meaning. Columns of one type are computed by the kernels that a declaration names: `grouped` for
groups (`spark_jobs/nodes/aggregate/accumulators.py`), `running` for window functions
(`spark_jobs/nodes/windows/kernels/choice.py`). Dynamic values, and functions without a kernel, are computed here.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import decimals, failure, types, values
from spark_jobs.cxl.builtins.declare import Anything, Numeric, aggregate
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence


def _of_argument(arguments: Sequence[types.Type]) -> types.Type:
    return arguments[0].or_null()


def _total_type(arguments: Sequence[types.Type]) -> types.Type:
    kind = arguments[0].kind
    if kind is Kind.DECIMAL:
        return types.decimal_of(None, arguments[0].scale).or_null()
    return (arguments[0] if kind in (Kind.INT, Kind.FLOAT) else types.NUMERIC).or_null()


def _mean_type(arguments: Sequence[types.Type]) -> types.Type:
    """A Decimal of Decimals, or of these and Ints, with the scale of a quotient; else a Float."""
    kinds = {argument.kind for argument in arguments}
    if Kind.DECIMAL not in kinds or not kinds <= {Kind.DECIMAL, Kind.INT}:
        return types.FLOAT.or_null()
    scales = [0 if argument.kind is Kind.INT else argument.scale for argument in arguments]
    known = [scale for scale in scales if scale is not None]
    scale = max(decimals.DIVISION_SCALE, *known) if len(known) == len(scales) else None
    return types.decimal_of(None, scale).or_null()


def _is_number(value: Any) -> bool:
    return value.__class__ is int or value.__class__ is float or value.__class__ is Decimal


class Total:
    """An exact sum: Ints, Decimals and finite Floats as fractions; infinities and NaN are kept apart.

    `scale` is the largest scale of its Decimals, None without any.
    """

    __slots__ = ("exact", "has_floats", "scale", "special", "terms")

    def __init__(self) -> None:
        self.exact: int | Fraction = 0
        self.special = 0.0
        self.has_floats = False
        self.scale: int | None = None
        self.terms = 0

    def add(self, value: Any) -> None:
        """Count a number in."""
        self.terms += 1
        if value.__class__ is int:
            self.exact += value
            return
        if value.__class__ is Decimal:
            self.exact += Fraction(value)
            self.scale = max(self.scale or 0, decimals.scale_of(value))
            return
        self.has_floats = True
        if math.isfinite(value):
            self.exact += Fraction(value)
        else:
            self.special += value

    def absorb(self, other: Total) -> None:
        """Count another total's terms in."""
        self.exact += other.exact
        self.special += other.special
        self.has_floats |= other.has_floats
        if other.scale is not None:
            self.scale = max(self.scale or 0, other.scale)
        self.terms += other.terms

    def divided(self, divisor: int | Fraction) -> float:
        """The nearest Float to the total by a divisor."""
        return self.special if self.special != 0.0 else _nearest(Fraction(self.exact) / divisor)

    def mean(self) -> float | Decimal | None:
        """The mean of the terms: a Decimal where there are some and no Floats; None without terms."""
        if not self.terms:
            return None
        if self.has_floats or self.scale is None:
            return self.divided(self.terms)
        return _quotient(Fraction(self.exact) / self.terms, self.scale, "avg")


def _quotient(number: Fraction, scale: int, operation: str) -> Decimal:
    found = decimals.of_fraction(number, max(scale, decimals.DIVISION_SCALE))
    if found is None:
        raise decimals.overflow(operation)
    return found


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@aggregate(
    result=_total_type,
    reversible=True,
    grouped=lambda kernels, call: kernels.sum_of(call),
    windows={
        "sum": "The running sum of the field; Ints give an Int, Decimals a Decimal, nulls are skipped.",
        "cumulative_sum": "The same as `sum`: the running sum up to the current row.",
    },
    running=lambda kernels, call: kernels.sum_of(call),
)
class Sum:
    """The sum of the numbers; nulls are skipped.

    Ints add up to an Int, and a total outside 64 bits is an error. Decimals add up to a Decimal of the largest scale,
    with 38 digits at most. Floats are accumulated exactly: ten times 0.1 is 1. Without numbers the sum is null.
    """

    def __init__(self) -> None:
        self.total = Total()

    def step(self, value: Numeric) -> None:
        """Take one value in."""
        if _is_number(value):
            self.total.add(value)

    def merge(self, other: Sum) -> None:
        """Take another part of the group in."""
        self.total.absorb(other.total)

    def finish(self) -> Any:
        """The sum; null without values."""
        if not self.total.terms:
            return None
        if self.total.has_floats:
            return self.total.divided(1)
        if self.total.scale is not None:
            found = decimals.of_fraction(Fraction(self.total.exact), self.total.scale)
            if found is None:
                raise decimals.overflow("addition")
            return found
        if not values.MIN_INT <= self.total.exact <= values.MAX_INT:
            raise failure.overflow("addition")
        return self.total.exact


@aggregate(
    result=lambda arguments: types.INT,
    reversible=True,
    grouped=lambda kernels, call: kernels.Count(call),
)
class Count:
    """The number of records for `count(*)` and `count()`, of values that are not null for `count(x)`."""

    def __init__(self) -> None:
        self.number = 0

    def step(self, value: Anything = True) -> None:
        """Take one value in."""
        self.number += value is not None

    def merge(self, other: Count) -> None:
        """Take another part of the group in."""
        self.number += other.number

    def finish(self) -> int:
        """The number of records, or of values that are not null."""
        return self.number


@aggregate(
    result=_mean_type,
    grouped=lambda kernels, call: kernels.Average(call),
    windows={"avg": "The mean of the field over the frame, a Float, or a Decimal of Decimals; nulls are skipped."},
    running=lambda kernels, call: kernels.mean_of(call),
)
class Avg:
    """The arithmetic mean of the numbers, a Float; null without numbers.

    The mean of Decimals is a Decimal with the scale of a quotient: the larger of 6 and theirs, rounded half away from
    zero.
    """

    def __init__(self) -> None:
        self.total = Total()

    def step(self, value: Numeric) -> None:
        """Take one value in."""
        if _is_number(value):
            self.total.add(value)

    def merge(self, other: Avg) -> None:
        """Take another part of the group in."""
        self.total.absorb(other.total)

    def finish(self) -> float | Decimal | None:
        """The mean; null without values."""
        return self.total.mean()


def _comparable(one: Any, other: Any) -> bool:
    """True if `min` and `max` order two values: as `<` does, and truth values as sorting does, false first."""
    return values.comparable(one, other) or (one.__class__ is bool and other.__class__ is bool)


class _Best:
    """The first value that no other one beats. Nulls, and values that cannot be compared with it, are skipped.

    The first value is known only when the parts of a group come together, so a part keeps the best of every kind
    that it has seen, in the order of first appearance.
    """

    def __init__(self) -> None:
        self.bests: list[Any] = []

    def beats(self, value: Any, best: Any) -> bool:
        """True if a value is better than the best so far."""
        raise NotImplementedError

    def step(self, value: Anything) -> None:
        """Take one value in."""
        if value is None:
            return
        for position, best in enumerate(self.bests):
            if _comparable(best, value):
                if self.beats(value, best):
                    self.bests[position] = value
                return
        if not self.bests or _comparable(value, value):
            self.bests.append(value)

    def merge(self, other: _Best) -> None:
        """Take another part of the group in."""
        for best in other.bests:
            self.step(best)

    def finish(self) -> Any:
        """The winner, as it is."""
        return self.bests[0] if self.bests else None


@aggregate(
    result=_of_argument,
    grouped=lambda kernels, call: kernels.Min(call),
    windows={"min": "The smallest value in the frame; nulls are skipped."},
    running=lambda kernels, call: kernels.Min(call),
)
class Min(_Best):
    """The smallest value: of numbers, texts, truth values, dates or date-times; of equal ones the first.

    Nulls are skipped. NaN is larger than every number.
    """

    def beats(self, value: Any, best: Any) -> bool:
        """True if a value is smaller."""
        return bool(value < best or (best != best and value == value))


@aggregate(
    result=_of_argument,
    grouped=lambda kernels, call: kernels.Max(call),
    windows={"max": "The largest value in the frame; nulls are skipped."},
    running=lambda kernels, call: kernels.Max(call),
)
class Max(_Best):
    """The largest value: of numbers, texts, truth values, dates or date-times; of equal ones the first.

    Nulls are skipped. NaN is larger than every number.
    """

    def beats(self, value: Any, best: Any) -> bool:
        """True if a value is larger."""
        return bool(value > best or (value != value and best == best))


@aggregate(
    result=lambda arguments: types.array_of(arguments[0].non_null()),
    reversible=True,
    grouped=lambda kernels, call: kernels.Collect(call),
)
class Collect:
    """All values in record order, nulls included; an empty array without any."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def step(self, value: Anything) -> None:
        """Take one value in."""
        self.items.append(value)

    def merge(self, other: Collect) -> None:
        """Take another part of the group in."""
        self.items.extend(other.items)

    def finish(self) -> list[Any]:
        """The array of the values."""
        return self.items


@aggregate(
    name="weighted_avg",
    result=_mean_type,
    grouped=lambda kernels, call: kernels.WeightedAverage(call),
)
class WeightedAvg:
    """The sum of value times weight by the sum of weights.

    Pairs with a null are skipped; a total weight of 0 gives null. Of Decimals, or of these and Ints, it is a Decimal as
    `avg` gives it, else a Float.
    """

    def __init__(self) -> None:
        self.products: Fraction = Fraction(0)
        self.weights: Fraction = Fraction(0)
        #: The sums of non-finite products and of non-finite weights.
        self.special = [0.0, 0.0]
        #: The largest scale of the Decimals, and whether there were Floats.
        self.scale: int | None = None
        self.has_floats = False

    def step(self, value: Numeric, weight: Numeric) -> None:
        """Take one pair in."""
        if not (_is_number(value) and _is_number(weight)):
            return
        for number in (value, weight):
            if number.__class__ is Decimal:
                self.scale = max(self.scale or 0, decimals.scale_of(number))
            self.has_floats |= number.__class__ is float
        if math.isfinite(value) and math.isfinite(weight):
            self.products += Fraction(value) * Fraction(weight)
        else:
            self.special[0] += float(value) * float(weight)
        if math.isfinite(weight):
            self.weights += Fraction(weight)
        else:
            self.special[1] += float(weight)

    def merge(self, other: WeightedAvg) -> None:
        """Take another part of the group in."""
        self.products += other.products
        self.weights += other.weights
        self.has_floats |= other.has_floats
        if other.scale is not None:
            self.scale = max(self.scale or 0, other.scale)
        self.special = [mine + its for mine, its in zip(self.special, other.special, strict=True)]

    def finish(self) -> float | Decimal | None:
        """The weighted mean; null without values."""
        products, weights = self.special
        if not self.weights and weights == 0.0:
            return None
        if self.scale is not None and not self.has_floats:
            return _quotient(self.products / self.weights, self.scale, "weighted_avg")
        if products != 0.0:
            return products / (weights or _nearest(self.weights))
        return _nearest(self.products / self.weights)


@aggregate(result=_of_argument, grouped=lambda kernels, call: kernels.First(call))
class First:
    """The first record's value, null included."""

    def __init__(self) -> None:
        self.value: Any = None
        self.is_set = False

    def step(self, value: Anything) -> None:
        """Take one value in."""
        if not self.is_set:
            self.value, self.is_set = value, True

    def merge(self, other: First) -> None:
        """Take another part of the group in."""
        if other.is_set:
            self.step(other.value)

    def finish(self) -> Any:
        """The value."""
        return self.value


@aggregate(result=_of_argument, grouped=lambda kernels, call: kernels.Last(call))
class Last:
    """The last record's value, null included."""

    def __init__(self) -> None:
        self.value: Any = None
        self.is_set = False

    def step(self, value: Anything) -> None:
        """Take one value in."""
        self.value, self.is_set = value, True

    def merge(self, other: Last) -> None:
        """Take another part of the group in."""
        if other.is_set:
            self.step(other.value)

    def finish(self) -> Any:
        """The value."""
        return self.value


@aggregate(
    name="any",
    result=_of_argument,
    reversible=True,
    grouped=lambda kernels, call: kernels.FirstValue(call),
)
class AnyOf:
    """The first value that is not null."""

    def __init__(self) -> None:
        self.value: Any = None

    def step(self, value: Anything) -> None:
        """Take one value in."""
        if self.value is None:
            self.value = value

    def merge(self, other: AnyOf) -> None:
        """Take another part of the group in."""
        self.step(other.value)

    def finish(self) -> Any:
        """The value."""
        return self.value
