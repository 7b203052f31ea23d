"""Numbers as workbooks write them: texts that are ints, floats, or have more digits than either."""

from __future__ import annotations

import math
from decimal import Decimal

from spark_jobs.cxl import values

#: A number, and what is one of 64 bits for sure.
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
SHORT_INT = r"^-?[0-9]{1,18}$"
#: So many digits of a decimal number are those of its float.
_SAFE_DIGITS = 15
#: Floats beyond have no digits of their own there.
_MOST_DIGITS = 400


def value_of(text: str) -> int | float | str:
    """The value of a number: one with more digits than a float or an int has stays a text, so that none is lost."""
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
