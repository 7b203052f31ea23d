"""Float sums that do not depend on how the rows were split.

A double is a whole multiple of 2^-1074. So it can be written as digits to the base 2^32. Each digit is a whole number
that fits a 64 bit column, and sums of such columns are exact for up to two billion rows. Most columns need three
digits; which ones depends on the values alone. Only the total is rounded, once, to the nearest double.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_units, decimals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Columns of digits by their place: digit `d` at place `k` counts `d * 2^(32 k)`.
Digits = dict[int, pa.Array]

#: The place of NaN and infinities: a column of doubles, present if some term is not finite.
SPECIAL = 64
_BITS = 32
_HALF = 1 << (_BITS - 1)
#: No digit of a double has a lower place.
_LEAST_PLACE = -34
#: All whole numbers up to this one are doubles.
_DOUBLE = 1 << 53
#: Sums up to this size are certain to fit 64 bits.
_SAFE = 1 << 62
_LOW = np.uint64((1 << _BITS) - 1)
#: Rows in a block: its arrays fit the processor's cache.
_BLOCK = 1 << 15
#: An upper bound of the relative error of a quotient in long doubles: operands, their sums and the quotient are
#: rounded.
_UNSURE = 8 * np.finfo(np.longdouble).eps
#: An upper bound of the error of adding up differences of products, relative to the products.
_INEXACT = 2.0**-98
#: Doubles smaller than this one have fewer bits.
_LEAST_NORMAL = np.finfo(np.float64).smallest_normal
#: The largest exponent of a power of two whose inverse is a double.
_MOST_SHIFT = 1000


def digits_of(*columns: pa.Array) -> Digits:
    """The terms of some columns, added up row by row, as digits; rows are null in all columns or in none.

    Place 0 is always there, and null where the row is.
    """
    count = len(columns[0])
    found: dict[int, np.ndarray] = {0: np.zeros(count, np.int64)}
    for column in columns:
        values = column.fill_null(0.0) if column.null_count else column
        x = values.to_numpy(zero_copy_only=False)
        finite = np.isfinite(x)
        if not finite.all():
            with np.errstate(invalid="ignore"):
                found[SPECIAL] = found.get(SPECIAL, 0.0) + np.where(finite, 0.0, x)
            x = np.where(finite, x, 0.0)
        for start in range(0, count, _BLOCK):
            for place, digits in _split(x[start : start + _BLOCK]):
                target = found.get(place)
                if target is None:
                    target = found[place] = np.zeros(count, np.int64)
                target[start : start + _BLOCK] += digits.astype(np.int64)
    return _arrays(found, _nulls(columns[0]))


def of_ints(totals: pa.Array) -> Digits:
    """Sums of whole numbers, as decimals of 128 bits without a scale, as digits."""
    first = totals.offset * 2
    words = np.frombuffer(totals.buffers()[1], dtype=np.uint64)[first : first + 2 * len(totals)].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1].view(np.int64)
    found = {0: (low & _LOW).astype(np.int64), 1: (low >> np.uint64(_BITS)).astype(np.int64), 2: high.copy()}
    nulls = _nulls(totals)
    if nulls is not None:
        found = {place: np.where(nulls, 0, column) for place, column in found.items()}
    return _arrays(found, nulls)


def of_decimals(column: pa.Array, count: int) -> Digits:
    """The units of Decimals of one scale as digits; a single digit at place 0 if no sum can exceed 64 bits.

    Args:
        column: the Decimals.
        count: the largest number of terms in a sum.
    """
    missing = _nulls(column)
    units, wide = decimal_units.units(column)
    if wide is None and decimal_units.largest(units) * max(count, 1) < _SAFE:
        return _arrays({0: units}, missing)
    low, high = decimal_units.words(column)
    shift, mask = np.uint64(_BITS), _LOW
    found = {0: (low & mask).astype(np.int64), 1: (low >> shift).astype(np.int64)}
    found |= {2: high & np.int64(_LOW), 3: high >> _BITS}
    return _arrays(found, missing)


def units_of(digits: Mapping[int, pa.Array]) -> np.ndarray:
    """The whole numbers that digits represent (no place below 0); Python ints if they exceed 64 bits."""
    found = _carried(digits)
    is_small = all(not column.any() for place, column in found.items() if place > 1)
    if is_small and (1 not in found or decimal_units.largest(found[1]) < _HALF >> 1):
        upper = found[1] << _BITS if 1 in found else 0
        small: np.ndarray = found[0] + upper
        return small
    total = np.zeros(len(digits[0]), dtype=object)
    for place, column in found.items():
        total += column.astype(object) << _BITS * place
    return total


def means(units: np.ndarray, counts: np.ndarray, scale: int, wanted: int) -> np.ndarray:
    """Totals divided by their numbers of terms, rounded half away from zero.

    Args:
        units: the units of the totals.
        counts: the number of terms of each total; ignored where the total is null.
        scale: the scale of the totals.
        wanted: the scale of the means, at least `scale`.
    """
    power = 10 ** (wanted - scale)
    if units.dtype == object or decimal_units.largest(units) * power >= _SAFE:
        units, counts = units.astype(object), counts.astype(object)
    counts = np.maximum(counts, 1)
    size = abs(units) * power
    rounded = (2 * size + counts) // (2 * counts) if units.dtype == object else _nearest_whole(size, counts)
    return np.where(units < 0, -rounded, rounded)


def _nearest_whole(size: np.ndarray, counts: np.ndarray) -> np.ndarray:
    quotient, rest = np.divmod(size, counts)
    nearest: np.ndarray = quotient + (rest >= counts - rest)
    return nearest


def decimals_of(units: np.ndarray, missing: np.ndarray, scale: int) -> tuple[pa.Array, pa.Array | None]:
    """Decimals from their units, null where `missing`; and a mask of the values with more than 38 digits."""
    if units.dtype != object:
        return decimal_units.of_units(units, scale, missing if missing.any() else None), None
    bound = 10**decimals.MAX_DIGITS
    numbers = [None if is_null else int(each) for each, is_null in zip(units, missing.tolist(), strict=True)]
    bad = [each is not None and not -bound < each < bound for each in numbers]
    kept = [None if is_bad else each for each, is_bad in zip(numbers, bad, strict=True)]
    return decimal_units.of_numbers(kept, scale), pa.array(bad, pa.bool_())


def _split(rest: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The digits of finite values, from the largest place down."""
    while largest := max(rest.max(), -rest.min()):
        place = (math.frexp(largest)[1] - 1) // _BITS
        digits = np.trunc(_shifted(rest, -place * _BITS))
        yield place, digits
        rest = rest - _shifted(digits, place * _BITS)


def _shifted(x: np.ndarray, bits: int) -> np.ndarray:
    """Values multiplied by a power of two."""
    if not bits:
        return x
    if abs(bits) <= _MOST_SHIFT:
        return x * 2.0**bits
    half = bits // 2
    return x * 2.0**half * 2.0 ** (bits - half)


def carried(digits: Mapping[int, pa.Array]) -> Digits:
    """Sums of digits as digits again, small enough to be summed as often. Each sum has exactly one such form."""
    return _arrays(_carried(digits), _nulls(digits[0]))


def _carried(digits: Mapping[int, pa.Array]) -> dict[int, np.ndarray]:
    given = {place: column.fill_null(0).to_numpy(zero_copy_only=False) for place, column in digits.items()}
    special = given.pop(SPECIAL, None)
    found: dict[int, np.ndarray] = {} if special is None else {SPECIAL: special}
    carry = None
    for place in range(min(given), max(given) + 2):
        sums = given.get(place)
        if carry is not None:
            sums = carry if sums is None else sums + carry
        if sums is None:
            continue
        carry = (sums + _HALF) >> _BITS
        found[place] = sums - (carry << _BITS)
        carry = carry if carry.any() else None
    return found


def _nulls(column: pa.Array) -> np.ndarray | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


def _arrays(columns: Mapping[int, np.ndarray], nulls: np.ndarray | None) -> Digits:
    return {place: pa.array(column, mask=nulls) for place, column in columns.items()}


@dataclass(frozen=True)
class Totals:
    """Numbers, one per group: `(head + tail) * 2^exponent`, where `head` is the nearest double to `head + tail`.

    Args:
        head: the leading bits of each number.
        tail: the rest of it, with an error below one.
        exponent: whole numbers. They may exceed the exponents of doubles, so that means of large numbers stay exact.
        special: NaN or an infinity, which replaces the number; 0.0 elsewhere.
        nulls: a mask of the groups without a number.
        digits: the digits of each number by place; None if `head` and `exponent` are the whole number.
    """

    head: np.ndarray
    tail: np.ndarray
    exponent: np.ndarray
    special: np.ndarray
    nulls: np.ndarray
    digits: Mapping[int, np.ndarray] | None = None

    @staticmethod
    def of_digits(digits: Mapping[int, pa.Array]) -> Totals:
        """The totals that these digits mean, a row for each group."""
        found = _carried(digits)
        count = len(digits[0])
        special = found.pop(SPECIAL, np.zeros(count))
        parts = [_rounded(found, slice(start, start + _BLOCK)) for start in range(0, count, _BLOCK)]
        empty = (np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
        head, tail, exponent = (np.concatenate(each) for each in zip(*(parts or [empty]), strict=True))
        return Totals(head, tail, exponent, special, digits[0].is_null().to_numpy(zero_copy_only=False), found)

    @staticmethod
    def of_ints(sums: pa.Array) -> Totals:
        """Sums of whole numbers. They need no digits if all of them are doubles."""
        bounds = pc.min_max(sums).as_py()
        if max(abs(bounds["min"] or 0), abs(bounds["max"] or 0)) > _DOUBLE:
            return Totals.of_digits(of_ints(sums))
        zeros = np.zeros(len(sums))
        head = pc.cast(sums, pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        nulls = sums.is_null().to_numpy(zero_copy_only=False)
        return Totals(head, zeros, zeros.astype(np.int64), zeros, nulls)

    @staticmethod
    def of_counts(counts: pa.Array) -> Totals:
        """The totals of row counts, a row for each group."""
        plain = counts.to_numpy(zero_copy_only=False).astype(np.float64)
        zeros = np.zeros(len(plain))
        return Totals(plain, zeros, zeros.astype(np.int64), zeros, zeros != 0)

    def nearest(self) -> pa.Array:
        """The nearest double of each total."""
        return _chosen(_times(self.head, self.exponent), self.special, self.nulls)

    def divided(self, by: Totals) -> pa.Array:
        """The doubles nearest to the quotients; null if the divisor is zero."""
        is_special = (self.special != 0.0) | (by.special != 0.0)
        by_zero = by.head == 0.0
        nulls = self.nulls | by.nulls | (by_zero & (by.special == 0.0))
        wide = [each.astype(np.longdouble) for each in (self.head, self.tail, by.head, by.tail)]
        quotient = (wide[0] + wide[1]) / np.where(nulls | by_zero, 1.0, wide[2] + wide[3])
        exponent = self.exponent - by.exponent
        numbers = _times(quotient.astype(np.float64), exponent)
        # Nearly all quotients are so far from the midpoint of two doubles that the error makes no difference.
        is_sure = (quotient * (1 - _UNSURE)).astype(np.float64) == (quotient * (1 + _UNSURE)).astype(np.float64)
        is_sure &= (np.abs(numbers) >= _LEAST_NORMAL) | (quotient == 0.0)
        unsure = np.flatnonzero(~is_sure & ~is_special & ~nulls)
        nearest, is_known = self._close_to_the_middle(by, quotient, unsure)
        numbers[unsure] = _times(nearest, exponent[unsure])
        is_known &= np.abs(numbers[unsure]) >= _LEAST_NORMAL
        for row in unsure[~is_known].tolist():
            numbers[row] = _nearest(self._exactly(row) / by._exactly(row))
        special = np.zeros(len(nulls))
        if is_special.any():
            numerator, denominator = (np.where(each.special != 0.0, each.special, each.head) for each in (self, by))
            with np.errstate(invalid="ignore"):
                special = np.where(is_special, numerator / np.where(nulls, 1.0, denominator), 0.0)
        return _chosen(numbers + 0.0, special, nulls)  # -0.0 is 0.0

    def _close_to_the_middle(self, by: Totals, quotient: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The doubles nearest to quotients that lie close to the midpoint of two doubles, and whether that is certain.

        The dividend is compared with the product of the midpoint and the divisor. The rounding error of a product of
        doubles is itself a double, and the differences are so small that doubles hold most of them exactly.

        Args:
            by: the divisors.
            quotient: the quotients in long doubles, without their exponents.
            rows: the quotients to look at.
        """
        ends = [(quotient[rows] * factor).astype(np.float64) for factor in (1 - _UNSURE, 1 + _UNSURE)]
        low, high = np.minimum(*ends), np.maximum(*ends)
        half = (high - low) / 2  # a power of two if they are neighbours
        dividend, divisor = self.head[rows], by.head[rows]
        product = low * divisor
        missing, error = _sum(dividend - product, self.tail[rows])  # the difference is exact: they are nearly equal
        missing, more = _sum(missing, -lost(low, divisor, product))
        missing = missing - half * divisor - (low + half) * by.tail[rows]
        rest, rest_by = self._rest(rows), by._rest(rows)
        is_known = np.abs(missing) > _INEXACT * np.abs(dividend) + rest + np.abs(high) * rest_by
        above = (missing > 0) == (divisor > 0)
        is_tie = (missing == 0) & (error == 0) & (more == 0) & (by.tail[rows] == 0) & (rest == 0) & (rest_by == 0)
        is_even = np.frexp(low)[0] * 2.0**52 % 1 == 0
        nearest = np.where(is_tie, np.where(is_even, low, high), np.where(above, high, low))
        return nearest, (is_known | is_tie) & (np.nextafter(low, np.inf) == high)

    def _rest(self, rows: np.ndarray) -> np.ndarray:
        """An upper bound of the error (one or zero) of head plus tail as a number, without exponents."""
        found = np.zeros(len(rows))
        if self.digits is not None:
            places = sorted(self.digits, reverse=True)
            is_there = np.stack([self.digits[place][rows] != 0 for place in places])
            first = np.array(places)[np.argmax(is_there, axis=0)]
            for place, there in zip(places, is_there, strict=True):
                found[there & (place < first - 2)] = 1.0
        return found

    def _exactly(self, row: int) -> Fraction:
        if self.digits is None:
            return Fraction(self.head[row].item()) * Fraction(2) ** int(self.exponent[row])
        whole = sum(int(digits[row]) << _BITS * (place - _LEAST_PLACE) for place, digits in self.digits.items())
        return Fraction(whole, 1 << -_BITS * _LEAST_PLACE)


def lost(x: np.ndarray, y: np.ndarray, product: np.ndarray) -> np.ndarray:
    """The rounding errors of the products of doubles. They are exact, but 0 for the largest and smallest doubles."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
        found: np.ndarray = x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low)
    return np.where(np.isfinite(found), found, 0.0)


def _sum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of doubles, and their rounding errors (Knuth's two-sum)."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Doubles as sums of two doubles with half as many bits (Veltkamp's split), whose products are exact."""
    scaled = x * float((1 << 27) + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _times(head: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Numbers multiplied by powers of two."""
    with np.errstate(over="ignore", under="ignore"):
        numbers: np.ndarray = np.ldexp(head, exponent)
    return numbers


def _chosen(numbers: np.ndarray, special: np.ndarray, nulls: np.ndarray) -> pa.Array:
    return pa.array(np.where(special != 0.0, special, numbers), mask=nulls)


def _rounded(carried: Mapping[int, np.ndarray], rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Head, tail and exponent of some rows, from the first three significant digits and the sign of the rest."""
    places = range(max(carried), min(carried) - 4, -1)
    count = len(carried[0][rows])
    none = np.zeros(count, np.int64)
    table = np.stack([carried[place][rows] if place in carried else none for place in places])
    signs = np.sign(table)
    for i in reversed(range(len(places) - 1)):
        signs[i] = np.where(signs[i], signs[i], signs[i + 1])
    first = np.argmax(table != 0, axis=0)
    a, b, c = (_at(table, first + i).astype(np.float64) for i in range(3))
    # Everything is exact here but the last sum. Its operands are whole multiples of a half, so the sign of the
    # remaining digits decides the nearest double as well as the digits themselves would.
    a, b = a * 2.0 ** (2 * _BITS), b * 2.0**_BITS
    head = a + b
    low = ((a - head) + b) + c + 0.5 * _at(signs, first + 3)
    nearest = head + low
    return nearest, low - (nearest - head), (places[0] - first - 2) * _BITS


def _at(table: np.ndarray, row: np.ndarray) -> np.ndarray:
    """The value of each column in its given row."""
    found: np.ndarray = np.take_along_axis(table, row[np.newaxis], axis=0)[0]
    return found
