"""Numbers as workbooks write them: texts that are ints, floats, or have more digits than either."""

from __future__ import annotations

import math
from decimal import Decimal

from spark_jobs.cxl import values

#: A number, and an integer that certainly fits into 64 bits.
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
SHORT_INT = r"^-?[0-9]{1,18}$"
#: A float keeps all digits of a decimal number with at most so many.
_SAFE_DIGITS = 15
#: An integer with so many digits or more is beyond every float.
_MOST_DIGITS = 400


def value_of(text: str) -> int | float | str:
    """The value of a number. A number with more digits than an int or a float can hold stays a text."""
    digits = text.removeprefix("-")
    if digits.isdecimal():
        number = int(text) if len(digits) < _MOST_DIGITS else values.MAX_INT + 1
        return number if values.MIN_INT <= number <= values.MAX_INT else text
    found = float(text)
    if math.isinf(found):
        return text
    if len(text) <= _SAFE_DIGITS or repr(found) == text:
        return found
    exact = Decimal(text).normalize()
    written = len(exact.as_tuple().digits)
    if written <= _SAFE_DIGITS or (written < _MOST_DIGITS and Decimal(f"{found:.{written - 1}e}") == exact):
        return found
    return text
