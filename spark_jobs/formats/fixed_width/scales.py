"""Numbers with an implied decimal point: `0012345` with two digits after it is 123.45."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

import pyarrow as pa
import pyarrow.compute as pc

#: More digits than any field has: exact for all floats.
_DIGITS = 400


def with_point(text: pa.StringArray, scale: int, point: str = ".") -> pa.StringArray:
    """Insert a point before the last digits; a text that has one, or is no number, stays as it is."""
    is_digits = pc.match_substring_regex(text, "^[+-]?[0-9]+$")
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "+-"), scale + 1, "0")
    sign = pc.if_else(pc.starts_with(text, "-"), "-", "")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    fraction = pc.utf8_slice_codeunits(digits, -scale)
    return pc.if_else(is_digits, pc.binary_join_element_wise(sign, whole, point, fraction, ""), text)


def without_point(text: pa.StringArray, scale: int) -> tuple[pa.StringArray, list[int]]:
    """Numbers as digits, the last `scale` of them after the point, and the rows that are not numbers.

    If there are more digits after the point, the number is rounded, a half away from zero.
    """
    is_short = pc.fill_null(pc.match_substring_regex(text, rf"^-?[0-9]+(\.[0-9]{{1,{scale}}})?$"), True)
    whole = pc.replace_substring_regex(text, r"\..*$", "")
    fraction = pc.utf8_rpad(pc.replace_substring_regex(text, r"^-?[0-9]+\.?", ""), scale, "0")
    found = pc.replace_substring_regex(pc.binary_join_element_wise(whole, fraction, ""), "^(-?)0+([0-9])", r"\1\2")
    rest = pc.invert(is_short)
    exact: list[str | None] = []
    bad: list[int] = []
    for row in pc.indices_nonzero(rest).to_pylist():
        exact.append(_rounded(text[row].as_py(), scale))
        if exact[-1] is None:
            bad.append(row)
    return (pc.replace_with_mask(found, rest, pa.array(exact, pa.string())) if exact else found), bad


def _rounded(text: str, scale: int) -> str | None:
    with localcontext(prec=_DIGITS):
        try:
            return str(int((Decimal(text).scaleb(scale)).to_integral_value(ROUND_HALF_UP)))
        except (InvalidOperation, ValueError, OverflowError):
            return None
