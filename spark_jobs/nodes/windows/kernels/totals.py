"""`sum`, `cumulative_sum` and `avg`: running totals, exact until they are rounded once."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import decimal_units, decimals, failure, types
from spark_jobs.nodes.aggregate import exact
from spark_jobs.nodes.windows.kernels.function import Arguments, FailingFrames, Function, Results, combined_failures

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.rows import SortedBatch

_BITS = 32
_LOW = (1 << _BITS) - 1
#: Sums up to this size fit a word in whatever order.
_SAFE = 1 << 62
_ZERO = Decimal(0)
#: All whole numbers up to this one are doubles.
_DOUBLE = 1 << 53


class Total(Function):
    """Counts the numbers in the frame, and keeps failures of their evaluation."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._failing = FailingFrames()
        self._counted = 0

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        """The totals of the numbers so far; null before the first."""
        column = given.values.slice(0, batch.count)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        counts = batch.running(valid.astype(np.int64), self._counted)
        self._counted = int(counts[-1])
        found = self.totals(
            batch, column.fill_null(pa.scalar(_ZERO if pa.types.is_decimal(column.type) else 0, column.type)), counts
        )
        return Results(found.values, combined_failures(self._failing.of(batch, given), found.failures))

    def totals(self, batch: SortedBatch, column: pa.Array, counts: np.ndarray) -> Results:
        """The totals.

        Args:
            batch: the rows.
            column: their numbers, 0 for nulls.
            counts: the number of numbers so far.
        """
        raise NotImplementedError


class _Ints(Total):
    """Totals of whole numbers, as two words if one might overflow."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._carried = 0

    def words(self, batch: SortedBatch, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Each total as `high * 2^32 + low`, `low` from 0 to 2^32 - 1."""
        terms = column.to_numpy()
        carried = self._carried if batch.head else 0
        largest = max(abs(int(terms.max())), abs(int(terms.min())))
        if largest * batch.count + abs(carried) < _SAFE:
            sums = batch.running(terms, carried)
            self._carried = int(sums[-1])
            return sums >> _BITS, sums & _LOW
        high = batch.running(terms >> _BITS, carried >> _BITS)
        low = batch.running(terms & _LOW, carried & _LOW)
        high, low = high + (low >> _BITS), low & _LOW
        self._carried = (int(high[-1]) << _BITS) + int(low[-1])
        return high, low


class IntSum(_Ints):
    """The running sum of whole numbers. A sum outside 64 bits is a failure of the record."""

    _OVERFLOW = failure.encode(failure.overflow("addition"))

    def totals(self, batch: SortedBatch, column: pa.Array, counts: np.ndarray) -> Results:
        high, low = self.words(batch, column)
        sums = pa.array((high << _BITS) + low, mask=counts == 0)
        bad = (high >= 1 << (_BITS - 1)) | (high < -(1 << (_BITS - 1)))
        if not bad.any():
            return Results(sums)
        return Results(sums, pa.array(np.where(bad, self._OVERFLOW, ""), pa.string(), mask=~bad))


class IntMean(_Ints):
    """The running mean of whole numbers: the sum divided by the count, rounded once."""

    def totals(self, batch: SortedBatch, column: pa.Array, counts: np.ndarray) -> Results:
        """The means. A sum that is itself a double needs no digits."""
        high, low = self.words(batch, column)
        none = counts == 0
        if high.max() < _DOUBLE >> _BITS and high.min() >= -_DOUBLE >> _BITS:
            return Results(pa.array(((high << _BITS) + low) / np.maximum(counts, 1), mask=none))
        totals = exact.Totals.of_digits({0: pa.array(low, mask=none), 1: pa.array(high, mask=none)})
        return Results(totals.divided(exact.Totals.of_counts(pa.array(counts))))


class _Floats(Total):
    """Totals of Floats, by the digits of `exact.py`."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._digits: dict[int, int] = {}
        self._odd = [0, 0, 0]

    def sums(self, batch: SortedBatch, column: pa.Array, counts: np.ndarray) -> exact.Totals:
        """The sums before rounding."""
        none = counts == 0
        digits = exact.digits_of(column)
        special = digits.pop(exact.SPECIAL, None)
        found: exact.Digits = {}
        for place in sorted({*digits, *self._digits}):
            terms = digits[place].to_numpy() if place in digits else np.zeros(batch.count, np.int64)
            found[place] = pa.array(batch.running(terms, self._digits.get(place, 0)), mask=none)
        self._keep(found, batch)
        odd = self._special(batch, special)
        if odd is not None:
            found[exact.SPECIAL] = pa.array(odd)
        return exact.Totals.of_digits(found)

    def _keep(self, found: exact.Digits, batch: SortedBatch) -> None:
        """Carry the digits of the partition that continues."""
        last = {place: column.slice(batch.count - 1) for place, column in found.items()}
        carried = exact.carried(last)
        self._digits = {place: column[0].as_py() or 0 for place, column in carried.items() if column[0].as_py()}

    def _special(self, batch: SortedBatch, special: pa.Array | None) -> np.ndarray | None:
        """NaN or an infinity for each row whose frame has one, else 0.0; None if no frame has one."""
        if special is None and not (batch.head and any(self._odd)):
            self._odd = [0, 0, 0]
            return None
        terms = np.zeros(batch.count) if special is None else special.to_numpy()
        masks = (np.isnan(terms), terms == math.inf, terms == -math.inf)
        seen = [batch.running(mask.astype(np.int64), self._odd[i]) for i, mask in enumerate(masks)]
        self._odd = [int(each[-1]) for each in seen]
        nan, up, down = (each > 0 for each in seen)
        found: np.ndarray = np.select([nan | (up & down), up, down], [math.nan, math.inf, -math.inf], 0.0)
        return found


class FloatSum(_Floats):
    """The running sum of Floats."""

    def totals(self, batch: SortedBatch, column: pa.Array, counts: np.ndarray) -> Results:
        return Results(self.sums(batch, column, counts).nearest())


class FloatMean(_Floats):
    """The running mean of Floats."""

    def totals(self, batch: SortedBatch, column: pa.Array, counts: np.ndarray) -> Results:
        """The sums divided by the counts, rounded once."""
        return Results(self.sums(batch, column, counts).divided(exact.Totals.of_counts(pa.array(counts))))


class DecimalSum(Total):
    """The running sum of Decimals of one scale, in units; Python ints if 64 bits might overflow."""

    _operation = "addition"

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._carried = 0
        self._scale = call.argument_type.scale or 0

    def totals(self, batch: SortedBatch, column: pa.Array, counts: np.ndarray) -> Results:
        """The totals. A total with more than 38 digits is a failure of the record."""
        found, bad = self.made(self._units(batch, column), counts)
        if bad is None:
            return Results(found)
        text = failure.encode(decimals.overflow(self._operation))
        mask = bad.to_numpy(zero_copy_only=False)
        return Results(found, pa.array(np.where(mask, text, ""), pa.string(), mask=~mask))

    def made(self, units: np.ndarray, counts: np.ndarray) -> tuple[pa.Array, pa.Array | None]:
        """The results from the units of the sums, and a mask of failures."""
        return exact.decimals_of(units, counts == 0, self._scale)

    def _units(self, batch: SortedBatch, column: pa.Array) -> np.ndarray:
        carried = self._carried if batch.head else 0
        terms, wide = decimal_units.units(column)
        if wide is None and decimal_units.largest(terms) * batch.count + abs(carried) < _SAFE:
            sums = batch.running(terms, carried)
        else:
            sums = np.empty(batch.count, dtype=object)
            total = carried
            starts = batch.starts.tolist()
            for row, term in enumerate(decimal_units.whole(column)):
                total = term if starts[row] else total + term
                sums[row] = total
        self._carried = int(sums[-1])
        return sums


class DecimalMean(DecimalSum):
    """The running mean of Decimals of one scale, with the scale of a quotient."""

    _operation = "avg"

    def made(self, units: np.ndarray, counts: np.ndarray) -> tuple[pa.Array, pa.Array | None]:
        wanted = self.call.type.scale or 0
        return exact.decimals_of(exact.means(units, counts, self._scale, wanted), counts == 0, wanted)


def sum_of(call: Call) -> Function:
    """The running sum of numbers of one type."""
    return {types.Kind.INT: IntSum, types.Kind.DECIMAL: DecimalSum}.get(call.argument_type.kind, FloatSum)(call)


def mean_of(call: Call) -> Function:
    """The running mean of numbers of one type."""
    return {types.Kind.INT: IntMean, types.Kind.DECIMAL: DecimalMean}.get(call.argument_type.kind, FloatMean)(call)
