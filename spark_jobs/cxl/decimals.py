"""The arithmetic of Decimals: exact, with 38 digits at most, and a scale that is a part of the value.

A Decimal is a Python `decimal.Decimal` that is finite, has no exponent above 0, no sign of zero, at most 38 digits, and
a scale (digits after the point) of 0 to 38. Python's operators round to a context; no other module calculates with
them. A result that no Decimal holds is a `Failure`.

| operation | scale of the result |
|---|---|
| `a + b`, `a - b`, `a % b` | the larger one |
| `a * b` | the sum of both |
| `a / b` | the largest of 6 and both, rounded half away from zero |
"""

from __future__ import annotations

import math
import re
from decimal import Clamped, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import TYPE_CHECKING

from spark_jobs.cxl import failure, types

if TYPE_CHECKING:
    from fractions import Fraction

MAX_DIGITS = types.MOST_DIGITS
#: Quotients and means have at least so many digits after the point.
DIVISION_SCALE = 6
_LIMIT = 10**MAX_DIGITS
#: Exact for sums and products of two Decimals, and for the integer quotient of a remainder.
_EXACT = Context(
    prec=4 * MAX_DIGITS + 2, Emax=10**6, Emin=-(10**6), traps=[InvalidOperation, DivisionByZero, Overflow, Clamped]
)
_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
#: Texts that are longer are no Decimals: they have zeros that nobody writes.
_LONGEST = 200
_ZERO = Decimal(0)


def scale_of(number: Decimal) -> int:
    """The number of digits after the point."""
    return -int(number.as_tuple().exponent)


def fits(number: Decimal) -> bool:
    """True if a finite number has the digits and the scale of a Decimal."""
    exponent = number.as_tuple().exponent
    return -MAX_DIGITS <= int(exponent) <= 0 and number.adjusted() - int(exponent) < MAX_DIGITS


def of_text(written: str) -> Decimal | None:
    """The number that a text spells, with as many digits after the point as it has; None if it spells none.

    `1e3` is 1000. A number that has too many digits is None as well.
    """
    if len(written) > _LONGEST or not _TEXT.fullmatch(written):
        return None
    return _plain(Decimal(written))


def _plain(number: Decimal) -> Decimal | None:
    """A finite number as a Decimal, or None where it has too many digits."""
    exponent = int(number.as_tuple().exponent)
    if exponent > 0:
        if number.adjusted() >= MAX_DIGITS and number:
            return None
        number = number.quantize(Decimal(1), context=_EXACT) if number else _ZERO
    if not number:
        return Decimal((0, (0,), exponent)) if -MAX_DIGITS <= exponent <= 0 else (_ZERO if exponent > 0 else None)
    return number if fits(number) else None


def of_float(number: float) -> Decimal | None:
    """The number that the shortest digits of a Float spell; None for NaN, infinities and too many digits."""
    if not math.isfinite(number):
        return None
    digits = repr(number)
    return _plain(Decimal(digits[:-2] if digits.endswith(".0") else digits))


def of_int(number: int) -> Decimal:
    """An Int as a Decimal of scale 0."""
    return Decimal(number)


def of_units(count: int, scale: int) -> Decimal | None:
    """So many units of 10 to the power of -scale; None if they have more than 38 digits."""
    if not -_LIMIT < count < _LIMIT or not 0 <= scale <= MAX_DIGITS:
        return None
    return Decimal((int(count < 0), tuple(map(int, str(abs(count)))), -scale))


def units(number: Decimal) -> int:
    """The number as an integer, in units of its scale."""
    sign, digits, _ = number.as_tuple()
    found = int("".join(map(str, digits)))
    return -found if sign else found


def of_fraction(number: Fraction, scale: int) -> Decimal | None:
    """A fraction rounded half away from zero to a scale; None if it has more than 38 digits then."""
    over, under = abs(number.numerator) * 10**scale, number.denominator
    found = (2 * over + under) // (2 * under)
    return of_units(-found if number < 0 else found, scale)


def rounded(number: Decimal, scale: int) -> Decimal | None:
    """A number with another scale, rounded half away from zero; None if it has more than 38 digits then.

    A negative scale rounds before the point and gives a number without digits after it.
    """
    own = scale_of(number)
    if own == scale:
        return number
    count = units(number)
    if scale >= own:
        return of_units(count * 10 ** (scale - own), scale) if scale <= MAX_DIGITS else None
    unit = 10 ** min(own - scale, 2 * MAX_DIGITS)
    found = (2 * abs(count) + unit) // (2 * unit)
    found = -found if count < 0 else found
    return of_units(found, scale) if scale >= 0 else of_units(found * 10 ** min(-scale, 2 * MAX_DIGITS), 0)


def declared(number: Decimal, precision: int | None, scale: int | None) -> Decimal | None:
    """A number as a column of declared digits has it; None if it does not fit without rounding.

    Args:
        number: it.
        precision: how many digits it may have; None for 38.
        scale: how many digits stand after the point; None for as many as it has.
    """
    if scale is not None and scale != scale_of(number):
        found = rounded(number, scale)
        if found is None or found != number:
            return None
        number = found
    if precision is not None and abs(units(number)) >= 10**precision:
        return None
    return number


def of_declared(written: str, precision: int | None, scale: int | None) -> Decimal | None:
    """The number that a text spells, as a column of declared digits has it; see `of_text` and `declared`."""
    number = of_text(written)
    return number if number is None else declared(number, precision, scale)


def _checked(number: Decimal, operation: str) -> Decimal:
    if not fits(number):
        raise overflow(operation)
    return number if number else number.copy_abs()


def overflow(operation: str) -> failure.Failure:
    """A result that has more than 38 digits."""
    return failure.Failure(f"decimal overflow in {operation} operation: the result has more than {MAX_DIGITS} digits")


def add(left: Decimal, right: Decimal) -> Decimal:
    """Checked addition."""
    return _checked(_EXACT.add(left, right), "addition")


def subtract(left: Decimal, right: Decimal) -> Decimal:
    """Checked subtraction."""
    return _checked(_EXACT.subtract(left, right), "subtraction")


def multiply(left: Decimal, right: Decimal) -> Decimal:
    """Checked multiplication."""
    return _checked(_EXACT.multiply(left, right), "multiplication")


def divide(left: Decimal, right: Decimal) -> Decimal:
    """Division, rounded half away from zero."""
    if not right:
        raise failure.division_by_zero()
    one, other = scale_of(left), scale_of(right)
    scale = max(DIVISION_SCALE, one, other)
    over, under = units(left) * 10 ** (scale + other - one), units(right)
    size = (2 * abs(over) + abs(under)) // (2 * abs(under))
    found = of_units(size if (over < 0) is (under < 0) else -size, scale)
    if found is None:
        raise overflow("division")
    return found


def modulo(left: Decimal, right: Decimal) -> Decimal:
    """The remainder, with the sign of the dividend."""
    if not right:
        raise failure.division_by_zero()
    return _checked(_EXACT.remainder(left, right), "modulo")


def negate(number: Decimal) -> Decimal:
    """The number with the other sign; every Decimal has a counterpart."""
    return number.copy_negate() if number else number


def absolute(number: Decimal) -> Decimal:
    """The number without its sign."""
    return number.copy_abs()
