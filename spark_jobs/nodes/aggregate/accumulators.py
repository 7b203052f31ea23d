"""The aggregate functions on Arrow: what they keep of raw rows, how kept states merge, and the result.

Each accumulator names columns to prepare, an Arrow grouping function for each, and the same again for merging states;
the grouping itself is done once for all accumulators of a node. Functions over dynamic values keep the values and let
the declared meaning (`cxl/builtins/aggregates.py`) work on them when the group is complete.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values
from spark_jobs.nodes.aggregate import exact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.cxl import typed

SKIP_NULLS = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
ZERO_WHEN_EMPTY = pc.ScalarAggregateOptions(skip_nulls=True, min_count=0)
#: Functions that Arrow is not asked for: the value of the group's first or last row, null or not.
FIRST, LAST = "first row", "last row"
EXACT_INT = pa.decimal128(38, 0)


@dataclass(frozen=True)
class Grouped:
    """A state column: the prepared column, the grouping function that makes it, and its options.

    `function` None marks a list of values, which Arrow cannot regroup: `groups.py` joins lists itself.
    """

    name: str
    values: pa.Array
    function: str | None
    options: Any = None


@dataclass(frozen=True)
class Accumulator:
    """One call. `name` prefixes its state columns."""

    call: typed.AggregateCall
    name: str
    #: About how many state columns it has.
    width: ClassVar = 1

    def parts(self) -> tuple[Accumulator, ...]:
        """What keeps states for this one; those of one name keep the same states."""
        return (self,)

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """State columns from raw rows."""
        raise NotImplementedError

    def again(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """State columns from states by their names."""
        raise NotImplementedError

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The results, and a mask of groups whose result is an error (a sum outside 64 bits)."""
        raise NotImplementedError


class Count(Accumulator):
    """`count(*)` counts rows, `count(x)` those that are not null."""

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """Ones are summed."""
        ones = pc.cast(arguments[0].is_valid(), pa.int64()) if arguments else pa.array(np.ones(count, dtype=np.int64))
        return [Grouped(self.name, ones, "sum", ZERO_WHEN_EMPTY)]

    def again(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """Counts are summed."""
        return [Grouped(self.name, states[self.name], "sum", ZERO_WHEN_EMPTY)]

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The count; no rows are zero."""
        return pc.fill_null(states[self.name], 0), None


class IntSum(Accumulator):
    """Int sums are exact: 64 bits while that is certain to do, 128 between batches."""

    width = 2

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """The terms, wide when their sum might not fit."""
        terms = arguments[0]
        bounds = pc.min_max(terms).as_py()
        largest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
        wide = terms if largest * max(count, 1) < 2**62 else pc.cast(terms, EXACT_INT)
        return [Grouped(self.name, wide, "sum", SKIP_NULLS)]

    def again(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """Wide sums."""
        return [Grouped(self.name, pc.cast(states[self.name], EXACT_INT), "sum", SKIP_NULLS)]

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The sum as Int where it fits."""
        total = pc.cast(states[self.name], EXACT_INT)
        low, high = (pa.scalar(bound, EXACT_INT) for bound in (values.MIN_INT, values.MAX_INT))
        bad = pc.fill_null(pc.or_(pc.less(total, low), pc.greater(total, high)), False)
        return pc.cast(pc.if_else(bad, pa.scalar(None, EXACT_INT), total), pa.int64()), bad


class FloatSum(Accumulator):
    """Float sums by exact digits (see `exact.py`); which places there are depends on the values."""

    width = 4

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """The digits of the terms, which are the sums of the arguments."""
        return self._grouped(exact.digits_of(*(pc.cast(argument, pa.float64(), safe=False) for argument in arguments)))

    def again(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """Digits whose sums fit once more."""
        return self._grouped(exact.carried(self._digits(states)))

    def totals(self, states: Mapping[str, pa.Array]) -> exact.Totals:
        """Each group's sum."""
        return exact.Totals.of_digits(self._digits(states))

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The nearest double."""
        return self.totals(states).nearest(), None

    def _grouped(self, digits: exact.Digits) -> list[Grouped]:
        return [Grouped(f"{self.name}.{place}", column, "sum", SKIP_NULLS) for place, column in digits.items()]

    def _digits(self, states: Mapping[str, pa.Array]) -> exact.Digits:
        found = ((*name.rpartition("."), column) for name, column in states.items())
        return {int(place): column for name, _, place, column in found if name == self.name}


def _named(kind: type[Accumulator], call: typed.AggregateCall) -> Accumulator:
    """An accumulator named by what it does with which columns, so that calls that need the same share it."""
    return kind(call, f"{kind.__name__} {' '.join(call.arguments)}")


class Average(Accumulator):
    """Sum by count, divided once."""

    def parts(self) -> tuple[Accumulator, ...]:
        """A sum and a count."""
        is_int = self.call.argument_types[0].kind is types.Kind.INT
        return _named(IntSum if is_int else FloatSum, self.call), _named(Count, self.call)

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """Null without values."""
        total, counted = self.parts()
        count = counted.finish(states)[0]
        if isinstance(total, FloatSum):
            totals = total.totals(states)
        else:
            totals = exact.Totals.of_ints(pc.cast(states[total.name], EXACT_INT))
        return totals.divided(exact.Totals.of_counts(count)), None


class WeightedAverage(Accumulator):
    """Sum of value times weight by sum of weights; pairs with a null are skipped, weight zero gives null."""

    width = 8

    def _parts(self) -> tuple[FloatSum, FloatSum]:
        return FloatSum(self.call, f"{self.name}.product"), FloatSum(self.call, f"{self.name}.weight")

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """Products with their rounding errors, and weights."""
        value, weight = (pc.cast(a, pa.float64(), safe=False) for a in arguments)
        known = pc.and_(value.is_valid(), weight.is_valid())
        values, factors = (pc.if_else(known, a, pa.scalar(None, pa.float64())) for a in (value, weight))
        product = pc.multiply(values, factors)
        wide = [
            a.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.longdouble) for a in (values, factors, product)
        ]
        with np.errstate(invalid="ignore", over="ignore"):
            lost = (wide[0] * wide[1] - wide[2]).astype(np.float64)
        error = pa.array(np.where(np.isfinite(lost), lost, 0.0), mask=product.is_null().to_numpy(zero_copy_only=False))
        products, weights = self._parts()
        return [*products.first([product, error], count), *weights.first([factors], count)]

    def again(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """Merged like sums."""
        return [grouped for part in self._parts() for grouped in part.again(states)]

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """Null where the weights add up to zero."""
        products, weights = (part.totals(states) for part in self._parts())
        return products.divided(weights), None


class Pick(Accumulator):
    """`min`, `max`, `first`, `last`, `any`: one of the values, by Arrow's function of that name or by the row."""

    _FUNCTIONS: ClassVar = {"min": ("min", SKIP_NULLS), "max": ("max", SKIP_NULLS), "first": (FIRST, None),
                  "last": (LAST, None), "any": ("first", SKIP_NULLS)}  # fmt: skip

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """The values; for `max` also whether there is a NaN, which Arrow's function passes over."""
        grouped = [Grouped(self.name, arguments[0], *self._FUNCTIONS[self.call.function])]
        if self._may_be_nan(arguments[0]):
            grouped.append(Grouped(f"{self.name}.nan", pc.fill_null(pc.is_nan(arguments[0]), False), "any", None))
        return grouped

    def again(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """The same function over the winners, which stand in record order."""
        winners = states[self.name]
        grouped = [Grouped(self.name, winners, *self._FUNCTIONS[self.call.function])]
        if self._may_be_nan(winners):
            grouped.append(Grouped(f"{self.name}.nan", states[f"{self.name}.nan"], "any", None))
        return grouped

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The winner."""
        winners = states[self.name]
        if self._may_be_nan(winners):
            winners = pc.if_else(states[f"{self.name}.nan"], pa.scalar(math.nan, winners.type), winners)
        return winners, None

    def _may_be_nan(self, values: pa.Array) -> bool:
        return self.call.function == "max" and pa.types.is_floating(values.type)


class Collect(Accumulator):
    """All values in record order; for functions over dynamic values, which the declared meaning then folds."""

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """One list column per argument; without arguments the nulls of `collect(*)`."""
        arguments = arguments or [pa.nulls(count, pa.string())]
        return [Grouped(f"{self.name}.{i}", argument, "list") for i, argument in enumerate(arguments)]

    def again(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """Lists are joined."""
        count = max(len(self.call.arguments), 1)
        return [Grouped(f"{self.name}.{i}", states[f"{self.name}.{i}"], None) for i in range(count)]

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The list, or what the function makes of it."""
        lists = states[f"{self.name}.0"]
        if lists.null_count:  # the single group of no rows
            lists = pa.array([items or [] for items in lists.to_pylist()], lists.type)
        target = values.arrow_type(self.call.type)
        if self.call.function == "collect" and lists.type == target:
            return lists, None
        columns = [
            [self._decoded(items, static) for items in states[f"{self.name}.{i}"].to_pylist()]
            for i, static in enumerate(self.call.argument_types or (types.ANY,))
        ]
        return self._fold(columns)

    @staticmethod
    def _decoded(items: list[Any] | None, static: types.Type) -> list[Any]:
        return [values.decode(item) for item in items or ()] if static.is_dynamic else list(items or ())

    def _fold(self, columns: list[list[list[Any]]]) -> tuple[pa.Array, pa.Array | None]:
        from spark_jobs.cxl.builtins import declare

        function = declare.aggregates()[self.call.function]
        results, bad = [], []
        for group in zip(*columns, strict=True):
            value, failed = function.fold(zip(*group, strict=True))
            results.append(value)
            bad.append(failed)
        return values.to_arrow(results, self.call.type), pa.array(bad)


def accumulator(call: typed.AggregateCall, name: str) -> Accumulator:
    """The accumulator of a call."""
    if any(static.is_dynamic for static in call.argument_types):
        return Count(call, name) if call.function == "count" else Collect(call, name)
    match call.function:
        case "count":
            return _named(Count, call)
        case "sum":
            return _named(IntSum if call.argument_types[0].kind is types.Kind.INT else FloatSum, call)
        case "avg":
            return Average(call, name)
        case "weighted_avg":
            return WeightedAverage(call, name)
        case "min" | "max" | "first" | "last" | "any":
            return Pick(call, name)
        case "collect":
            return Collect(call, name)
        case _:
            return Collect(call, name)
