"""Texts of digits that are no numbers: codes, telephone numbers, versions. As numbers they would lose signs."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from spark_jobs.formats.spelling import Spelling

WHOLE = re.compile(r"[+-]?[0-9]+")
LEADING_ZERO = re.compile(r"[+-]?0[0-9]+")
#: A code that looks like a number with an exponent.
EXPONENT = re.compile(r"[0-9]+[eE][0-9]+")
#: How spreadsheets show whole numbers that are too long for a cell.
_SHORTENED = re.compile(r"[+-]?[0-9][.,]([0-9]{1,9})E\+([0-9]{2})")
#: Numbers beyond these digits are shown so.
_SHOWN_DIGITS = 11
_VERSION_NAME = re.compile(
    r"version|release|revision|chapter|section|kapitel|abschnitt|gliederung|clause", re.IGNORECASE
)
#: Separators of groups that codes have, too, and how many digits a code has at least.
_MARKS_OF_CODES, _CODE_DIGITS = (" ", "."), 8
#: A number with a plus has so many characters at least where it is one of a telephone.
_TELEPHONE = 8


def reason(name: str, texts: Collection[str], spelling: Spelling) -> tuple[str, str, bool] | None:
    """Why the numbers of a column are no numbers; None where nothing says so.

    Args:
        name: the column's name.
        texts: its texts that are numbers in the spelling.
        spelling: the spelling.

    Returns:
        The reason, a text that shows it, and whether a person has to decide.
    """
    usual = {text: spelling.usual(text, Kind.FLOAT) or "" for text in texts}
    padded = next((text for text, number in usual.items() if LEADING_ZERO.fullmatch(number.partition(".")[0])), None)
    if padded is not None and not _is_padded_fraction(texts):
        return "some numbers begin with a zero", padded, False
    if all(text.startswith("+") and len(text) >= _TELEPHONE for text in texts):
        return "all begin with a plus, as telephone numbers do", next(iter(texts)), False
    code = next(filter(EXPONENT.fullmatch, texts), None)
    if code is not None and all(WHOLE.fullmatch(text) or EXPONENT.fullmatch(text) for text in texts):
        return "it looks like a code rather than a number with an exponent", code, False
    if spelling.thousands_separator in _MARKS_OF_CODES and len(texts) > 2 and (count := _equal_groups(usual)):
        said = f"all have {count} digits, as telephone numbers and codes do; a number needs `thousands_separator`"
        return said, next(iter(texts)), True
    if _VERSION_NAME.search(name) and (twin := same(texts, spelling)) is not None:
        return f"`{twin[0]}` and `{twin[1]}` would be the same number", twin[1], False
    return None


def same(texts: Collection[str], spelling: Spelling) -> tuple[str, str] | None:
    """Two texts with fractions that are the same number, such as `1.1` and `1.10`."""
    seen: dict[str, str] = {}
    for text in texts:
        usual = spelling.usual(text, Kind.FLOAT) or ""
        whole, _, fraction = usual.partition(".")
        if fraction.strip("0") and "e" not in fraction.lower():
            other = seen.setdefault(f"{whole}.{fraction.rstrip('0')}", text)
            if other != text:
                return (other, text) if len(other) < len(text) else (text, other)
    return None


def shortened(texts: Collection[str]) -> str | None:
    """A number whose last digits a spreadsheet left out when it wrote it, such as `4.00638E+12`."""
    for text in texts:
        found = _SHORTENED.fullmatch(text)
        if found and int(found[2]) >= _SHOWN_DIGITS and int(found[2]) > len(found[1]):
            return text
    return None


def _is_padded_fraction(texts: Collection[str]) -> bool:
    """Whether zeros fill amounts up to one width, as fixed-width files have them; `01.10` is no amount."""
    return len({len(text.lstrip("+-")) for text in texts}) == 1 and all(
        re.fullmatch(r"[+-]?[0-9]{3,}[.,][0-9]+", text) for text in texts
    )


def _equal_groups(usual: dict[str, str]) -> int:
    """Give the common number of digits, if all numbers are grouped, long and without a fraction; 0 otherwise."""
    counts = Counter(sum(map(str.isdigit, number)) for number in usual.values())
    is_grouped = all(text != number and WHOLE.fullmatch(number) for text, number in usual.items())
    (count, _), *others = counts.most_common()
    return count if is_grouped and not others and count >= _CODE_DIGITS else 0
