"""Numbers of JSON that stand in columns: those that no int of 64 bits and no float holds stay texts."""

from __future__ import annotations

import math

from spark_jobs.cxl import values

#: More digits are no int, and turning them into one takes long.
_MOST_DIGITS = 20


def of_int(text: str) -> int | str:
    """The Int that a text of digits means; the text itself where no Int holds it."""
    number = int(text) if len(text) <= _MOST_DIGITS else values.MAX_INT + 1
    return number if values.MIN_INT <= number <= values.MAX_INT else text


def of_float(text: str) -> float | str:
    """The value of digits with a fraction or an exponent."""
    number = float(text)
    return text if math.isinf(number) else number
