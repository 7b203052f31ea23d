"""Number patterns of the CLDR, `#,##0.00`, for writing: compiled once, exact, with the symbols of no language.

`0` is a digit that is always written, `#` one that is written if it is significant. `.` is the decimal point, `,`
separates groups of digits. `%` and `‰` multiply by 100 and 1,000. `-` and `+` are signs. Other text may precede or
follow the digits; characters with a meaning need single quotes. A second pattern after `;` has the prefix and suffix of
negative numbers.

Numbers are rounded in decimal, halves away from zero, Floats by the digits of their texts. So both engines write the
same, and `1.005` by `0.00` is `1.01`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

from spark_jobs import limits
from spark_jobs.cxl import failure, values

#: More digits than any number has that a pattern may ask for.
_EXACT = Context(prec=2 * limits.NUMBER_DIGITS + 400, rounding=ROUND_HALF_UP)
_SCALES = {"%": 2, "‰": 3}
_DIGITS = "0#,."
#: Features of CLDR patterns that are not supported.
_OTHERS = {
    "@": "significant digits (`@`) are not supported",
    "¤": "currencies are not supported: write the sign in single quotes, `'€' 0.00`",
    "*": "padding (`*`) is not supported: use `.pad_left(width, fill)`",
    "E": "exponents (`E`) are not supported; put text in single quotes",
    **dict.fromkeys("123456789", "write digits other than `0` in single quotes; to round to multiples, use `.round()`"),
}


@dataclass(frozen=True)
class Pattern:
    """A compiled number pattern.

    Args:
        before: what stands before a number that is not negative, and before a negative one.
        after: the same after them.
        whole: how many digits there are at least before the point.
        least: how many there are at least after it.
        most: how many there are at most after it; the rest is rounded.
        groups: how many digits the last group before the point has, and the others; 0 where there are no groups.
        scale: the power of ten that numbers are multiplied by.
    """

    before: tuple[str, str]
    after: tuple[str, str]
    whole: int
    least: int
    most: int
    groups: tuple[int, int] = (0, 0)
    scale: int = 0

    def write(self, number: float | Decimal) -> str:
        """The text of a number. NaN and infinities are their own text."""
        if number.__class__ is float and not math.isfinite(number):
            return values.float_text(number)
        exact = Decimal(repr(number) if number.__class__ is float else number)
        rounded = exact.scaleb(self.scale, _EXACT).quantize(_unit(self.most), context=_EXACT)
        digits = f"{rounded.copy_abs():f}"  # `abs` would round to the 28 digits of the default context
        is_negative = rounded < 0
        whole, _, fraction = digits.partition(".")
        if self.most > self.least:
            fraction = fraction[: self.least] + fraction[self.least :].rstrip("0")
        whole = whole.lstrip("0").rjust(self.whole, "0")
        if not whole and not fraction:
            whole = "0"
        if self.groups[0]:
            whole = _grouped(whole, *self.groups)
        text = f"{whole}.{fraction}" if fraction else whole
        return f"{self.before[is_negative]}{text}{self.after[is_negative]}"


@lru_cache(maxsize=512)
def _unit(places: int) -> Decimal:
    return Decimal(1).scaleb(-places)


def _grouped(digits: str, last: int, others: int) -> str:
    """Digits with commas between their groups."""
    rest, groups = digits[:-last], [digits[-last:]]
    while rest:
        groups.append(rest[-others:])
        rest = rest[:-others]
    return ",".join(reversed(groups))


def complaint(pattern: str) -> str | None:
    """The mistake in a pattern; None if it is valid, as the empty one is."""
    try:
        compiled(pattern)
    except ValueError as problem:
        return str(problem)
    return None


def write(number: float, pattern: str) -> str:
    """The text of a number by a pattern; the empty pattern gives its usual text.

    Raises:
        Failure: a computed pattern is none.
    """
    try:
        found = compiled(pattern)
    except ValueError:
        raise failure.conversion(pattern, "a number pattern like `#,##0.00`") from None
    return values.text_of(number) if found is None else found.write(number)


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Pattern | None:
    """The compiled pattern, None for the empty one. Raises `ValueError` with the reason if it is malformed."""
    if not pattern:
        return None
    positive, negative = _halves(pattern)
    before, number, after = _parts(positive)
    whole, least, most, groups = _number(number)
    minus = ("-" + before.text, after.text)
    if negative is not None:
        negative_before, _, negative_after = _parts(negative)
        minus = (negative_before.text, negative_after.text)
    if before.scale and after.scale:
        raise ValueError("`%` and `‰` may occur once in a pattern")
    scale = before.scale or after.scale
    return Pattern((before.text, minus[0]), (after.text, minus[1]), whole, least, most, groups, scale)


@dataclass
class _Affix:
    """The text around the digits, and the power of ten of its `%` or `‰`."""

    text: str = ""
    scale: int = 0


def _halves(pattern: str) -> tuple[str, str | None]:
    """The pattern of all numbers, and the pattern of negative ones, which follows an unquoted `;`."""
    quoted, at = False, []
    for position, character in enumerate(pattern):
        if character == "'":
            quoted = not quoted
        elif character == ";" and not quoted:
            at.append(position)
    if quoted:
        raise ValueError("a single quote is not closed; the sign itself is written `''`")
    if len(at) > 1:
        raise ValueError("there is more than one `;`")
    return (pattern[: at[0]], pattern[at[0] + 1 :]) if at else (pattern, None)


def _parts(half: str) -> tuple[_Affix, str, _Affix]:
    """Split a pattern into its prefix, the digits with their points, and its suffix."""
    affixes, number, quoted, position = [_Affix(), _Affix()], "", False, 0
    while position < len(half):
        character = half[position]
        affix = affixes[bool(number)]
        if character == "'":
            if half[position + 1 : position + 2] == "'":
                affix.text += "'"
                position += 1
            else:
                quoted = not quoted
        elif quoted:
            affix.text += character
        elif character in _DIGITS:
            if affixes[1].text:
                raise ValueError(f"digits stand in one place, and `{half[position:][:10]}` is another")
            number += character
        elif character in _OTHERS:
            raise ValueError(_OTHERS[character])
        else:
            if character in _SCALES:
                if affix.scale:
                    raise ValueError("`%` and `‰` may occur once in a pattern")
                affix.scale = _SCALES[character]
            affix.text += character
        position += 1
    if not set(number) & {"0", "#"}:
        raise ValueError("the pattern has no digit: write `0` or `#`, as in `#,##0.00`")
    return affixes[0], number, affixes[1]


def _number(number: str) -> tuple[int, int, int, tuple[int, int]]:
    """The least number of digits before the point, the least and most after it, and the sizes of groups."""
    whole, point, fraction = number.partition(".")
    if "." in fraction:
        raise ValueError("the pattern has more than one decimal point; `.` is the decimal point, `,` separates groups")
    if "," in fraction:
        raise ValueError("groups belong before the decimal point; `.` is the decimal point, `,` separates groups")
    if whole.startswith(",") or whole.endswith(",") or ",," in whole:
        raise ValueError("a `,` belongs between digits, as in `#,##0`")
    digits = whole.replace(",", "")
    if "0#" in digits:
        raise ValueError("before the decimal point, `#` comes before `0`")
    if "#0" in fraction:
        raise ValueError("after the decimal point, `0` comes before `#`")
    if point and not fraction:
        raise ValueError("no digit follows the decimal point")
    if max(len(digits), len(fraction)) > limits.NUMBER_DIGITS:
        raise ValueError(f"there are more than {limits.NUMBER_DIGITS} digits")
    sizes = [len(part) for part in whole.split(",")[1:]]
    groups = (sizes[-1], sizes[-2] if len(sizes) > 1 else sizes[-1]) if sizes else (0, 0)
    return digits.count("0"), fraction.count("0"), len(fraction), groups
