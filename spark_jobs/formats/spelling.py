"""Spellings of numbers, truth values and nulls in the texts of a column.

A text is turned into the usual spelling first, and then converted by the rules that hold for every column
(`coerce.py`). A number that is spelled in any other way than the column says does not convert: `1.5` is no number where
the decimal separator is a comma. Plans hold spellings and executors unpickle them, so this module loads no Arrow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from spark_jobs.cxl.types import Kind

NUMBERS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.NUMERIC)
#: The characters that stand for one that is hard to type, or that programs print in its place.
_ALIKE = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
_DECIMALS = ".,"
_THOUSANDS = (".", ",", " ", "'", "_", "\u00a0", "\u2009", "\u202f", "\u2019")


@dataclass(frozen=True)
class Spelling:
    """The spelling of a column's values.

    Args:
        decimal_separator: what stands before the fraction of a number.
        thousands_separator: what may stand between groups of digits; none where it is empty.
        null_values: the texts that are null, as they are written.
        true_values: further texts that are true, in any case of ASCII letters.
        false_values: further texts that are false, likewise.
    """

    decimal_separator: str = "."
    thousands_separator: str = ""
    null_values: tuple[str, ...] = ()
    true_values: tuple[str, ...] = ()
    false_values: tuple[str, ...] = ()

    @property
    def is_usual(self) -> bool:
        """Whether all values have the usual spelling."""
        return self == USUAL

    @property
    def spells_numbers(self) -> bool:
        """Whether numbers are spelled in another way than usual."""
        return self.decimal_separator != "." or bool(self.thousands_separator)

    @property
    def spells_truth(self) -> bool:
        """Whether there are further words for true and false."""
        return bool(self.true_values or self.false_values)

    @cached_property
    def grouping(self) -> str:
        """The characters that separate groups of digits."""
        return _ALIKE.get(self.thousands_separator, self.thousands_separator)

    @cached_property
    def number(self) -> str:
        """The pattern of a number, for Python and RE2 alike; other words such as `nan` are as usual."""
        digits = "[0-9]+"
        if self.grouping:
            mark = f"[{re.escape(self.grouping)}]"
            # Groups of two are India's: 12,34,567.
            digits = f"(?:[0-9]+|[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}})"
        point = f"[{self.decimal_separator}]"
        whole = f"(?:{digits}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        return f"^[+-]?(?:{whole}|(?i:inf|infinity|nan))$"

    @cached_property
    def _number(self) -> re.Pattern[str]:
        return re.compile(self.number, re.ASCII)

    @cached_property
    def _without_groups(self) -> dict[int, str | None]:
        return {**dict.fromkeys(map(ord, self.grouping)), ord(self.decimal_separator): "."}

    @cached_property
    def truths(self) -> dict[str, bool]:
        """The further words for true and false, in small letters."""
        found = {_small(word): True for word in self.true_values}
        return found | {_small(word): False for word in self.false_values}

    def usual(self, text: str, kind: Kind) -> str | None:
        """A text in the usual spelling; None where it is null.

        Raises:
            ValueError: it is no number of this spelling.
        """
        if text in self.null_values:
            return None
        if kind is Kind.BOOL and (truth := self.truths.get(_small(text))) is not None:
            return "true" if truth else "false"
        if kind in NUMBERS and self.spells_numbers:
            if not self._number.fullmatch(text):
                raise ValueError(text)
            return text.translate(self._without_groups)
        return text


#: The default spelling.
USUAL = Spelling()


def problems(spelling: Spelling) -> list[tuple[str, str]]:
    """The problems of a spelling: pairs of a key and a message."""
    found = []
    decimal, thousands = spelling.decimal_separator, spelling.thousands_separator
    if decimal not in _DECIMALS or len(decimal) != 1:
        found.append(("decimal_separator", f"expected `.` or `,`, found {decimal!r}"))
    if thousands and thousands not in _THOUSANDS:
        found.append(("thousands_separator", f"expected `.`, `,`, `'`, `_` or a space, found {thousands!r}"))
    elif thousands and thousands == decimal:
        what = f"it must differ from the decimal separator, which is {decimal!r}"
        found.append(("thousands_separator", what + (" unless `decimal_separator` says otherwise" * (decimal == "."))))
    both = {_small(word) for word in spelling.true_values} & {_small(word) for word in spelling.false_values}
    found += [("false_values", f"`{word}` is among `true_values` as well") for word in sorted(both)]
    return found


def _small(text: str) -> str:
    """A text with small ASCII letters; the case of others counts."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)
