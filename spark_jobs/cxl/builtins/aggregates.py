"""The aggregate functions, each in one place: its types, its meaning, its kernels, its documentation.

The classes are the meaning. Columns of one type are computed by the kernels that a declaration names: `grouped` for
groups (`spark_jobs/nodes/aggregate/accumulators.py`), `running` for window functions
(`spark_jobs/nodes/windows/kernels/choice.py`). Dynamic values, and functions without a kernel, are computed here.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import failure, types, values
from spark_jobs.cxl.builtins.declare import Anything, Numeric, aggregate
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence


def _of_argument(arguments: Sequence[types.Type]) -> types.Type:
    return arguments[0].or_null()


def _total_type(arguments: Sequence[types.Type]) -> types.Type:
    kind = arguments[0].kind
    return (arguments[0] if kind in (Kind.INT, Kind.FLOAT) else types.NUMERIC).or_null()


def _is_number(value: Any) -> bool:
    return value.__class__ is int or value.__class__ is float


class Total:
    """An exact sum: Ints and finite Floats as fractions; infinities and NaN are kept apart."""

    __slots__ = ("exact", "has_floats", "special", "terms")

    def __init__(self) -> None:
        self.exact: int | Fraction = 0
        self.special = 0.0
        self.has_floats = False
        self.terms = 0

    def add(self, value: Any) -> None:
        """Count a number in."""
        self.terms += 1
        if value.__class__ is int:
            self.exact += value
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
        self.terms += other.terms

    def divided(self, divisor: int | Fraction) -> float:
        """The nearest Float to the total by a divisor."""
        return self.special if self.special != 0.0 else _nearest(Fraction(self.exact) / divisor)


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
        "sum": "The running sum of the field; Ints give an Int, nulls are skipped.",
        "cumulative_sum": "The same as `sum`: the running sum up to the current row.",
    },
    running=lambda kernels, call: kernels.sum_of(call),
)
class Sum:
    """The sum of the numbers; nulls are skipped.

    Ints add up to an Int, and a total outside 64 bits is an error. Floats are accumulated exactly: ten times 0.1 is 1.
    Without numbers the sum is null.
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
    result=lambda arguments: types.FLOAT.or_null(),
    grouped=lambda kernels, call: kernels.Average(call),
    windows={"avg": "The mean of the field over the frame, a Float; nulls are skipped."},
    running=lambda kernels, call: kernels.mean_of(call),
)
class Avg:
    """The arithmetic mean of the numbers, a Float; null without numbers."""

    def __init__(self) -> None:
        self.total = Total()

    def step(self, value: Numeric) -> None:
        """Take one value in."""
        if _is_number(value):
            self.total.add(value)

    def merge(self, other: Avg) -> None:
        """Take another part of the group in."""
        self.total.absorb(other.total)

    def finish(self) -> float | None:
        """The mean; null without values."""
        return self.total.divided(self.total.terms) if self.total.terms else None


def _comparable(one: Any, other: Any) -> bool:
    """Whether `min` and `max` order two values: as `<` does, and truth values as sorting does, false first."""
    return values.comparable(one, other) or (one.__class__ is bool and other.__class__ is bool)


class _Best:
    """The first value that no other one beats; nulls and what cannot be compared with it are passed over.

    What the first value is shows only when the parts of a group come together, so a part keeps the best of every kind
    that it met, in the order it met them.
    """

    def __init__(self) -> None:
        self.bests: list[Any] = []

    def beats(self, value: Any, best: Any) -> bool:
        """Whether a value is better than the best so far."""
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
        """Whether a value is smaller."""
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
        """Whether a value is larger."""
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
    result=lambda arguments: types.FLOAT.or_null(),
    grouped=lambda kernels, call: kernels.WeightedAverage(call),
)
class WeightedAvg:
    """The sum of value times weight by the sum of weights.

    Pairs with a null are skipped; a total weight of 0 gives null.
    """

    def __init__(self) -> None:
        self.products: Fraction = Fraction(0)
        self.weights: Fraction = Fraction(0)
        #: Of the products and of the weights: what is not finite.
        self.special = [0.0, 0.0]

    def step(self, value: Numeric, weight: Numeric) -> None:
        """Take one pair in."""
        if not (_is_number(value) and _is_number(weight)):
            return
        if math.isfinite(value) and math.isfinite(weight):
            self.products += Fraction(value) * Fraction(weight)
        else:
            self.special[0] += value * weight
        if math.isfinite(weight):
            self.weights += Fraction(weight)
        else:
            self.special[1] += weight

    def merge(self, other: WeightedAvg) -> None:
        """Take another part of the group in."""
        self.products += other.products
        self.weights += other.weights
        self.special = [mine + its for mine, its in zip(self.special, other.special, strict=True)]

    def finish(self) -> float | None:
        """The weighted mean; null without values."""
        products, weights = self.special
        if not self.weights and weights == 0.0:
            return None
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
