"""Numbers as JSON writes them, as values of a kind that keeps all their digits.

Not here: numbers under a declared type, which convert to it (`formats/json/texts/decoding.py`).
"""

from __future__ import annotations

import math
from decimal import Decimal

from spark_jobs.cxl import decimals, values

#: Characters of the smallest Int.
_LONGEST_INT = 20
#: A number with a point and no exponent has at most 15 digits then, and all of these are digits of its double.
_SHORT = 16


def number_of(text: str) -> int | float | Decimal | str:
    """The value of a JSON number.

    An Int where 64 bits hold it. A Float where the shortest text of the nearest double spells the same number: `0.1`,
    `12.50` and `1e300` are Floats, `0.10000000000000001` is none. Any other number is a Decimal, and its own text where
    it has more digits than a Decimal.
    """
    if text.lstrip("-").isdecimal():
        number = int(text) if len(text) <= _LONGEST_INT else values.MAX_INT + 1
        return number if values.MIN_INT <= number <= values.MAX_INT else _exact(text)
    found = float(text)
    if (len(text) <= _SHORT and "e" not in text and "E" not in text) or is_spelled(found, text):
        return found
    return _exact(text)


def is_spelled(number: float, text: str) -> bool:
    """True if the shortest text of a double spells the number that a text does; no infinity spells any."""
    if not math.isfinite(number):
        return False
    if not number:
        return not text.lower().partition("e")[0].strip("-.0")
    return Decimal(repr(number)) == Decimal(text)


def _exact(text: str) -> Decimal | str:
    """A number that neither an Int nor a Float keeps; zeros at its end go only where it has too many digits."""
    found = decimals.of_text(text)
    if found is None and "." in text:
        found = decimals.of_text(text.rstrip("0"))
    return str(text) if found is None else found
