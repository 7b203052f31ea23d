"""Kernels of aggregate functions: states of raw rows, merged states, and results.

Each accumulator prepares columns and names an Arrow grouping function for each of them. It does the same to merge
states. A node groups once for all its accumulators. The declaration of a function names its kernel
(`spark_jobs/cxl/builtins/aggregates.py`). Functions over dynamic values collect the values; the declared class of the
function folds them when the group is complete.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values
from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes.aggregate import exact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.cxl import typed

SKIP_NULLS = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
ZERO_WHEN_EMPTY = pc.ScalarAggregateOptions(skip_nulls=True, min_count=0)
#: Functions that are not Arrow's: they take the value of the group's first or last row, null or not.
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
    """The kernels of one call of an aggregate function.

    Args:
        call: the call.
        name: prefixes its state columns. Accumulators with the same name share their states. The default is derived
            from the kernel and the columns that it reads.
    """

    call: typed.AggregateCall
    name: str = ""
    #: The approximate number of its state columns.
    width: ClassVar = 1
    #: The kernel accepts values whose type is known only at run time.
    takes_dynamic: ClassVar = False
    #: The result depends on the order of all records of a group, not just on the first or the last one.
    needs_order: ClassVar = False
    #: The result depends on a group's last record.
    needs_last: ClassVar = False

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", f"{type(self).__name__}{self.call.arguments}")

    def parts(self) -> tuple[Accumulator, ...]:
        """The accumulators whose states this one reads. Accumulators with the same name share their states."""
        return (self,)

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """State columns from raw rows."""
        raise NotImplementedError

    def merge_states(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """State columns from states by their names."""
        raise NotImplementedError

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The results, and a mask of groups whose result is an error (a sum outside 64 bits)."""
        raise NotImplementedError


def results_of(
    accumulators: Sequence[Accumulator], states: Mapping[str, pa.Array], count: int
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """The results of all accumulators by their names, and for each of `count` groups the first overflow, or no text."""
    results: dict[str, pa.Array] = {}
    overflows = np.full(count, "", dtype=object)
    for accumulator in accumulators:
        results[accumulator.call.result], bad = accumulator.finish(states)
        if bad is not None:
            overflows[bad.to_numpy(zero_copy_only=False) & (overflows == "")] = _overflow(accumulator.call)
    return results, overflows


def _overflow(call: typed.AggregateCall) -> str:
    """The message about a result that its type cannot hold."""
    match call.type.kind:
        case types.Kind.DECIMAL:
            return f"decimal overflow in {call.function}: the result has more than {types.MOST_DIGITS} digits"
        case types.Kind.INT:
            return f"integer overflow in {call.function}"
        case _:
            return f"overflow in {call.function}: the result is beyond 64 bits or {types.MOST_DIGITS} digits"


class Count(Accumulator):
    """`count(*)` counts rows. `count(x)` counts the rows in which `x` is not null."""

    takes_dynamic = True

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        ones = pc.cast(arguments[0].is_valid(), pa.int64()) if arguments else pa.array(np.ones(count, dtype=np.int64))
        return [Grouped(self.name, ones, "sum", ZERO_WHEN_EMPTY)]

    def merge_states(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        return [Grouped(self.name, states[self.name], "sum", ZERO_WHEN_EMPTY)]

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The count; no rows are zero."""
        return pc.fill_null(states[self.name], 0), None


class IntSum(Accumulator):
    """Int sums are exact: 64 bits as long as the sum is certain to fit, 128 bits between batches."""

    width = 2

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """The terms, as 128 bit decimals if their sum might not fit 64 bits."""
        terms = arguments[0]
        bounds = pc.min_max(terms).as_py()
        largest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
        wide = terms if largest * max(count, 1) < 2**62 else pc.cast(terms, EXACT_INT)
        return [Grouped(self.name, wide, "sum", SKIP_NULLS)]

    def merge_states(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        return [Grouped(self.name, pc.cast(states[self.name], EXACT_INT), "sum", SKIP_NULLS)]

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The sum as Int where it fits."""
        total = pc.cast(states[self.name], EXACT_INT)
        low, high = (pa.scalar(bound, EXACT_INT) for bound in (values.MIN_INT, values.MAX_INT))
        bad = pc.fill_null(pc.or_(pc.less(total, low), pc.greater(total, high)), False)
        return pc.cast(pc.if_else(bad, pa.scalar(None, EXACT_INT), total), pa.int64()), bad


class FloatSum(Accumulator):
    """Float sums by exact digits (see `exact.py`). The values decide which places are needed."""

    width = 4

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """The digits of the terms. With several arguments, a term is their sum."""
        return self._grouped(exact.digits_of(*(pc.cast(argument, pa.float64(), safe=False) for argument in arguments)))

    def merge_states(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """The carried digits, which can be summed again without overflow."""
        return self._grouped(exact.carried(self._digits(states)))

    def totals(self, states: Mapping[str, pa.Array]) -> exact.Totals:
        """The sum of each group."""
        return exact.Totals.of_digits(self._digits(states))

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        return self.totals(states).nearest(), None

    def _grouped(self, digits: exact.Digits) -> list[Grouped]:
        return [Grouped(f"{self.name}.{place}", column, "sum", SKIP_NULLS) for place, column in digits.items()]

    def _digits(self, states: Mapping[str, pa.Array]) -> exact.Digits:
        found = ((*name.rpartition("."), column) for name, column in states.items())
        return {int(place): column for name, _, place, column in found if name == self.name}


class DecimalSum(FloatSum):
    """Sums Decimals of one scale as whole units, by digits if 64 bits might overflow."""

    width = 2

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """The units, or their digits if the sum of all units might not fit 64 bits."""
        return self._grouped(exact.of_decimals(arguments[0], count))

    def units(self, states: Mapping[str, pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """The units of each sum (Python ints if they exceed 64 bits), and a mask of the sums without terms."""
        digits = self._digits(states)
        return exact.units_of(digits), digits[0].is_null().to_numpy(zero_copy_only=False)

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The sums; one with more than 38 digits is an error."""
        found, missing = self.units(states)
        return exact.decimals_of(found, missing, self.call.argument_types[0].scale or 0)


def sum_of(call: typed.AggregateCall) -> IntSum | FloatSum:
    """The sum of numbers of one type."""
    match call.argument_types[0].kind:
        case types.Kind.INT:
            return IntSum(call)
        case types.Kind.DECIMAL:
            return DecimalSum(call)
        case _:
            return FloatSum(call)


class Average(Accumulator):
    """Sum by count, divided once."""

    def parts(self) -> tuple[Accumulator, ...]:
        """A sum and a count."""
        return sum_of(self.call), Count(self.call)

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        total, counted = self.parts()
        count = counted.finish(states)[0]
        if isinstance(total, DecimalSum):
            found, missing = total.units(states)
            counts = count.to_numpy(zero_copy_only=False)
            scales = self.call.argument_types[0].scale or 0, self.call.type.scale or 0
            return exact.decimals_of(exact.means(found, counts, *scales), missing, scales[1])
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
        lost = exact.lost(*(a.fill_null(0.0).to_numpy(zero_copy_only=False) for a in (values, factors, product)))
        error = pa.array(lost, mask=product.is_null().to_numpy(zero_copy_only=False))
        products, weights = self._parts()
        return [*products.first([product, error], count), *weights.first([factors], count)]

    def merge_states(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        return [grouped for part in self._parts() for grouped in part.merge_states(states)]

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """Null where the weights add up to zero."""
        products, weights = (part.totals(states) for part in self._parts())
        return products.divided(weights), None


class Pick(Accumulator):
    """Picks one of the values, by a function of Arrow or by its row."""

    #: The function, and its options.
    function: ClassVar[str]
    options: ClassVar[Any] = None

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        return [Grouped(self.name, arguments[0], self.function, self.options)]

    def merge_states(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """Apply the same function to the states, which are in record order."""
        return [Grouped(self.name, states[self.name], self.function, self.options)]

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        return states[self.name], None


class Min(Pick):
    """The smallest value. Arrow ignores NaN if there is another number."""

    function, options = "min", SKIP_NULLS


class Max(Pick):
    """The largest value. For Floats a second state records NaN, which Arrow's function ignores."""

    function, options = "max", SKIP_NULLS

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """The values, and for Floats a mask of NaN."""
        grouped = super().first(arguments, count)
        if pa.types.is_floating(arguments[0].type):
            grouped.append(self._seen(pc.fill_null(pc.is_nan(arguments[0]), False)))
        return grouped

    def merge_states(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        """The largest state, and whether any value was NaN."""
        grouped = super().merge_states(states)
        if pa.types.is_floating(states[self.name].type):
            grouped.append(self._seen(states[f"{self.name}.nan"]))
        return grouped

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """NaN where there was one: it is larger than every number."""
        winners = states[self.name]
        if pa.types.is_floating(winners.type):
            winners = pc.if_else(states[f"{self.name}.nan"], pa.scalar(math.nan, winners.type), winners)
        return winners, None

    def _seen(self, are_nan: pa.Array) -> Grouped:
        return Grouped(f"{self.name}.nan", are_nan, "any", None)


class First(Pick):
    """The value of the first row."""

    function = FIRST


class Last(Pick):
    """The value of the last row."""

    function = LAST
    needs_last = True


class FirstValue(Pick):
    """The first value that is not null."""

    function, options = "first", SKIP_NULLS
    needs_order = True


class Folded(Accumulator):
    """All values in record order. The class that declares the function folds them when the group is complete."""

    takes_dynamic = True
    needs_order = True

    def first(self, arguments: list[pa.Array], count: int) -> list[Grouped]:
        """One list column per argument."""
        return [Grouped(f"{self.name}.{i}", argument, "list") for i, argument in enumerate(arguments)]

    def merge_states(self, states: Mapping[str, pa.Array]) -> list[Grouped]:
        return [Grouped(f"{self.name}.{i}", states[f"{self.name}.{i}"], None) for i in range(len(self.call.arguments))]

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """Apply the class that declares the function to the values of each group."""
        columns = [
            [self._decoded(items, static) for items in self._lists(states, i).to_pylist()]
            for i, static in enumerate(self.call.argument_types)
        ]
        function = declare.aggregates()[self.call.function]
        results, bad = [], []
        for group in zip(*columns, strict=True):
            value, failed = function.fold(zip(*group, strict=True))
            # The mean of dynamic values is declared as Float, whatever their types.
            results.append(
                float(value) if isinstance(value, Decimal) and self.call.type.kind is types.Kind.FLOAT else value
            )
            bad.append(failed)
        return values.to_arrow(results, self.call.type), pa.array(bad)

    def _lists(self, states: Mapping[str, pa.Array], argument: int) -> pa.Array:
        """The values of each group. The single group of an empty input has none."""
        lists = states[f"{self.name}.{argument}"]
        return pa.array([items or [] for items in lists.to_pylist()], lists.type) if lists.null_count else lists

    @staticmethod
    def _decoded(items: list[Any], static: types.Type) -> list[Any]:
        return [values.decode(item) for item in items] if static.is_dynamic else items


class Collect(Folded):
    """All values in record order, as an array."""

    def finish(self, states: Mapping[str, pa.Array]) -> tuple[pa.Array, pa.Array | None]:
        """The lists themselves, if their items already have the result's type."""
        lists = self._lists(states, 0)
        return (lists, None) if lists.type == values.arrow_type(self.call.type) else super().finish(states)


#: Functions without a kernel for Decimals: Arrow cannot pick the first value, and products of 38 digits fit no column.
_NOT_OF_DECIMALS = (WeightedAverage, FirstValue)


def accumulator(call: typed.AggregateCall) -> Accumulator:
    """The accumulator of a call, as its function declares it."""
    grouped = declare.aggregates()[call.function].grouped
    found: Accumulator = Folded(call) if grouped is None else grouped(sys.modules[__name__], call)
    is_dynamic = any(static.is_dynamic for static in call.argument_types)
    has_decimals = any(static.kind is types.Kind.DECIMAL for static in call.argument_types)
    if (is_dynamic and not found.takes_dynamic) or (has_decimals and isinstance(found, _NOT_OF_DECIMALS)):
        return Folded(call)
    return found
