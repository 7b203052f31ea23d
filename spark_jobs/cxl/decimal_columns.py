"""Operations on columns of Decimals of one scale: decimals of 38 digits in Arrow, computed as whole numbers of units.

A unit is the last digit after the point. If the units of operands and result fit 64 bits, as in most columns, the
operation is an exact one on whole numbers. Each row that does not fit is left to `decimals.py`, which defines the
operations on Decimals.
"""

from __future__ import annotations

import operator as python
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimals, values
from spark_jobs.cxl.builtins import array_kernels
from spark_jobs.cxl.decimal_units import kind, largest, nulls, of_units, scale_of, units
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.typed import Operator

if TYPE_CHECKING:
    from collections.abc import Callable

    Numbers = np.ndarray[Any, np.dtype[np.int64]]
    Mask = np.ndarray[Any, np.dtype[np.bool_]]

#: Results below are certain to fit 64 bits.
_SAFE = 1 << 62
#: All powers of ten that 64 bits hold.
_MOST_ZEROS = 18
#: Longer texts may have more digits than Arrow and a Decimal hold.
_LONGEST = 38
#: Arrow writes numbers with more digits after the point with an exponent where they are small.
_PLAIN_SCALE = 6


# ---- texts and doubles ---------------------------------------------------------------------------------------------


def texts(column: pa.Array) -> pa.StringArray:
    """All digits of each number, including those after the point; null stays null."""
    found = pc.cast(column, pa.string())
    if column.type.scale <= _PLAIN_SCALE:
        return found
    has_exponent = pc.fill_null(pc.match_substring(found, "E"), False)
    if not pc.any(has_exponent, min_count=0).as_py():
        return found
    exact = pa.array(map(values.decimal_text, column.filter(has_exponent).to_pylist()), pa.string())
    return pc.replace_with_mask(found, has_exponent, exact)


def of_texts(column: pa.StringArray, precision: int | None, scale: int) -> pa.Array | None:
    """The numbers that texts spell, where `decimals.of_declared` gives the same for each of them; None elsewhere."""
    longest = pc.max(pc.binary_length(column)).as_py()
    if longest is None or longest > _LONGEST:
        return None
    # Arrow takes exponents that no Decimal has.
    if array_kernels.has_byte(column, b"eE"):
        return None
    try:
        found = pc.cast(column, kind(scale))
    except pa.ArrowInvalid:
        return None
    return None if unsure(found, precision).any() else found


def unsure(column: pa.Array, precision: int | None) -> Mask:
    """The rows of what Arrow has made of texts that have more digits than declared, or may be other numbers.

    Arrow notices a number that gets too large with the zeros of its scale only where it is smaller then than before.
    """
    return too_large(column, min(precision or decimals.MAX_DIGITS, decimals.MAX_DIGITS - column.type.scale))


def too_large(column: pa.Array, precision: int) -> Mask:
    """The rows with more digits than that."""
    if precision >= decimals.MAX_DIGITS:
        return np.zeros(len(column), np.bool_)
    if precision > _MOST_ZEROS:
        bounds = (pa.scalar(Decimal(sign * 10**precision).scaleb(-column.type.scale), column.type) for sign in (1, -1))
        most, least = bounds
        mask = pc.or_(pc.greater_equal(column, most), pc.less_equal(column, least))
        found: Mask = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
        return found
    number, wide = units(column)
    outside: Mask = (number >= 10**precision) | (number <= -(10**precision))
    return outside if wide is None else outside | wide


# ---- another scale -------------------------------------------------------------------------------------------------


def rescaled(column: pa.Array, scale: int) -> tuple[pa.Array, Mask | None]:
    """A column of Decimals or Ints with another scale, rounded half away from zero.

    Gives also the rows, null there, that have more than 38 digits then; None if none has. A negative scale rounds
    before the point and gives numbers without digits after it.
    """
    own = scale_of(column)
    if own == scale and pa.types.is_decimal(column.type):
        return column, None
    number, wide = units(column)
    place = scale - own
    if place >= 0:
        fits = _shifts(number, place)
        found = number * np.int64(10 ** min(place, _MOST_ZEROS))
    else:
        fits = np.ones(len(number), np.bool_)
        found = _rounded(number, -place)
        if scale < 0:
            again = _shifts(found, -scale)
            fits &= again
            found = found * np.int64(10 ** min(-scale, _MOST_ZEROS))
    if wide is not None:
        fits &= ~wide
    return _completed(
        found, max(scale, 0), fits, nulls(column), lambda each: decimals.rounded(Decimal(each), scale), column
    )


def lossless(column: pa.Array, precision: int | None, scale: int) -> tuple[pa.Array, Mask | None]:
    """A column as one of declared digits has it, and the rows, null there, that would have to be rounded or cut."""
    found, failed = rescaled(column, scale)
    bad = np.zeros(len(column), np.bool_) if failed is None else failed.copy()
    if scale < scale_of(column):
        again, _ = rescaled(found, scale_of(column))
        is_other = pc.and_(pc.is_valid(column), pc.fill_null(pc.not_equal(again, column), True))
        bad |= is_other.to_numpy(zero_copy_only=False)
    if precision is not None and precision < decimals.MAX_DIGITS:
        bad |= too_large(found, precision)
    if not bad.any():
        return found, None
    return pc.if_else(pa.array(bad), pa.scalar(None, found.type), found), bad


def _shifts(number: Numbers, place: int) -> Mask:
    """A mask of the numbers that fit 64 bits when multiplied by a power of ten."""
    if place > _MOST_ZEROS:
        zero: Mask = number == 0
        return zero
    most = ((1 << 63) - 1) // 10**place
    fits: Mask = (number <= most) & (number >= -most)
    return fits


def _rounded(number: Numbers, place: int) -> Numbers:
    """Numbers by a power of ten, rounded half away from zero."""
    if place > _MOST_ZEROS + 1:
        return np.zeros(len(number), np.int64)
    unit = np.uint64(10**place)
    size = np.abs(number).view(np.uint64)
    quotient, rest = np.divmod(size, unit)
    return _signed(quotient + (rest >= unit - rest), number < 0)


def _signed(size: np.ndarray, is_negative: Mask) -> Numbers:
    found = size.view(np.int64)
    return np.where(is_negative, -found, found)


def _completed(
    found: Numbers,
    scale: int,
    fits: Mask,
    missing: Mask | None,
    exact: Callable[..., Decimal | None],
    *operands: Any,
) -> tuple[pa.Array, Mask | None]:
    """A column by units where these fit, and by the exact rule on the other rows; with the rows where it fails."""
    rest = ~fits if missing is None else ~fits & ~missing
    array = of_units(found, scale, missing)
    rows = np.flatnonzero(rest)
    if not len(rows):
        return array, None
    taken = pa.array(rows)
    items = [
        [each.as_py()] * len(rows) if isinstance(each, pa.Scalar) else each.take(taken).to_pylist() for each in operands
    ]
    results: list[Decimal | None] = []
    for each in zip(*items, strict=True):
        try:
            results.append(exact(*each))
        except Failure:
            results.append(None)
    failed = np.zeros(len(found), np.bool_)
    failed[rows[[each is None for each in results]]] = True
    array = pc.replace_with_mask(array, pa.array(rest), pa.array(results, kind(scale)))
    return array, failed if failed.any() else None


# ---- operators -----------------------------------------------------------------------------------------------------


def calculated(operator: Operator, left: Any, right: Any, count: int, scale: int) -> tuple[pa.Array, Mask | None]:
    """Arithmetic of Decimals; also the rows, null there, where it fails. None where none does.

    Args:
        operator: an arithmetic one.
        left: the Decimals on its left: an array, or a scalar that is not null.
        right: those on its right, which need not be of the same scale.
        count: how many rows there are.
        scale: of the result.
    """
    sides = [_Side(each, count) for each in (left, right)]
    if any(side.is_nothing for side in sides):
        return pa.nulls(count, kind(scale)), None
    found, fits = _OPERATIONS[operator](sides[0], sides[1], scale)
    for side in sides:
        if side.wide is not None:
            fits = fits & ~side.wide
    masks = [side.nulls for side in sides if side.nulls is not None]
    missing = np.logical_or.reduce(masks) if masks else None
    found = np.ascontiguousarray(np.broadcast_to(found, (count,)))
    return _completed(found, scale, np.broadcast_to(fits, (count,)), missing, _EXACT[operator], left, right)


def compared(operator: Operator, left: Any, right: Any, count: int) -> pa.Array:
    """A comparison of Decimals and Ints of any scales; null where a side is."""
    if left.type == right.type:
        found: pa.Array = _COMPARISONS[operator](left, right)
        return found
    sides = [_Side(each, count) for each in (left, right)]
    if any(side.is_nothing for side in sides):
        return pa.nulls(count, pa.bool_())
    scale = max(side.scale for side in sides)
    one, fits = sides[0].scaled(scale)
    other, also = sides[1].scaled(scale)
    fits = np.broadcast_to(fits & also, (count,))
    for side in sides:
        if side.wide is not None:
            fits = fits & ~side.wide
    masks = [side.nulls for side in sides if side.nulls is not None]
    missing = np.logical_or.reduce(masks) if masks else np.zeros(count, np.bool_)
    outcome = np.broadcast_to(_UFUNCS[operator](one, other), (count,)).copy()
    rows = np.flatnonzero(~fits & ~missing)
    if len(rows):
        items = [
            [each.as_py()] * len(rows) if isinstance(each, pa.Scalar) else each.take(pa.array(rows)).to_pylist()
            for each in (left, right)
        ]
        # Python compares Decimals and Ints exactly.
        outcome[rows] = [bool(_UFUNCS[operator](a, b)) for a, b in zip(*items, strict=True)]
    return pa.array(outcome, mask=missing)


class _Side:
    """An operand: its units, the rows where these do not fit 64 bits, and its nulls."""

    def __init__(self, given: Any, count: int) -> None:
        self.scale = scale_of(given)
        self.wide: Mask | None = None
        self.nulls: Mask | None = None
        self.is_nothing = isinstance(given, pa.Scalar) and not given.is_valid
        if not isinstance(given, pa.Scalar):
            self.units, self.wide = units(given)
            self.nulls = nulls(given)
        elif not self.is_nothing:
            number = decimals.units(Decimal(given.as_py()))
            is_small = -_SAFE < number < _SAFE
            self.units = np.array([number if is_small else 0], np.int64)
            self.wide = None if is_small else np.ones(1, np.bool_)

    @property
    def largest(self) -> int:
        """The largest absolute value of the units."""
        return largest(self.units)

    def scaled(self, scale: int) -> tuple[Numbers, Mask]:
        """The units at a scale that is not smaller, and the rows where these fit 64 bits."""
        place = scale - self.scale
        if not place:
            return self.units, np.ones(1, np.bool_)
        return self.units * np.int64(10 ** min(place, _MOST_ZEROS)), _shifts(self.units, place)


def _summed(left: _Side, right: _Side, scale: int, add: Callable[[Any, Any], Any]) -> tuple[Numbers, Mask]:
    one, fits = left.scaled(scale)
    other, also = right.scaled(scale)
    if fits.all() and also.all() and largest(one) + largest(other) < _SAFE:
        return add(one, other), np.ones(1, np.bool_)
    return add(one, other), fits & also & _is_small(one) & _is_small(other)


def _is_small(number: Numbers) -> Mask:
    return (number < _SAFE) & (number > -_SAFE)


def _add(left: _Side, right: _Side, scale: int) -> tuple[Numbers, Mask]:
    return _summed(left, right, scale, np.add)


def _subtract(left: _Side, right: _Side, scale: int) -> tuple[Numbers, Mask]:
    return _summed(left, right, scale, np.subtract)


def _multiply(left: _Side, right: _Side, scale: int) -> tuple[Numbers, Mask]:
    one, other = left.units, right.units
    if left.largest * right.largest < _SAFE:
        return one * other, np.ones(1, np.bool_)
    near = np.abs(one.astype(np.float64) * other.astype(np.float64))
    return one * other, near < float(_SAFE)


def _divide(left: _Side, right: _Side, scale: int) -> tuple[Numbers, Mask]:
    """Quotients rounded half away from zero; those by zero are left to the exact rule, which fails."""
    place = scale + right.scale - left.scale
    fits = _shifts(left.units, place) & _is_small(left.units) & _is_small(right.units) & (right.units != 0)
    over = np.abs(left.units * np.int64(10 ** min(place, _MOST_ZEROS))).view(np.uint64)
    under = np.where(right.units == 0, 1, np.abs(right.units)).view(np.uint64)
    quotient, rest = np.divmod(over, under)
    return _signed(quotient + (rest >= under - rest), (left.units < 0) != (right.units < 0)), fits


def _modulo(left: _Side, right: _Side, scale: int) -> tuple[Numbers, Mask]:
    one, fits = left.scaled(scale)
    other, also = right.scaled(scale)
    fits = fits & also & _is_small(one) & _is_small(other) & (other != 0)
    return np.fmod(one, np.where(fits, other, 1)), fits


_OPERATIONS: dict[Operator, Callable[[_Side, _Side, int], tuple[Numbers, Mask]]] = {
    Operator.ADD: _add,
    Operator.SUBTRACT: _subtract,
    Operator.MULTIPLY: _multiply,
    Operator.DIVIDE: _divide,
    Operator.MODULO: _modulo,
}
_EXACT: dict[Operator, Callable[[Decimal, Decimal], Decimal]] = {
    Operator.ADD: decimals.add,
    Operator.SUBTRACT: decimals.subtract,
    Operator.MULTIPLY: decimals.multiply,
    Operator.DIVIDE: decimals.divide,
    Operator.MODULO: decimals.modulo,
}
_COMPARISONS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_EQUAL: pc.greater_equal,
}
_UFUNCS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: python.eq,
    Operator.NOT_EQUAL: python.ne,
    Operator.LESS: python.lt,
    Operator.LESS_EQUAL: python.le,
    Operator.GREATER: python.gt,
    Operator.GREATER_EQUAL: python.ge,
}
