"""Hints for texts of a source that do not convert: the configuration key that would help.

All formats, dead letters and summaries use these hints. A hint is appended to the usual message. Patterns mean the same
in Python and in RE2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from spark_jobs.cxl import hints
from spark_jobs.cxl.hints import Hint
from spark_jobs.cxl.types import Kind
from spark_jobs.formats.spelling import NUMBERS, USUAL

if TYPE_CHECKING:
    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.format import SourceColumn
    from spark_jobs.formats.spelling import Spelling

_TIMES = (Kind.DATE, Kind.DATETIME)
_SIGN, _FRACTION = "^[+-]?", "[0-9]+"
#: Groups of digits, by what separates them.
_GROUPED = {
    mark: f"[0-9]{{1,3}}(?:{written}[0-9]{{3}})+" for mark, written in ((".", r"\."), (",", ","), ("'", "['’]"))
}
_GROUPED[" "] = "[0-9]{1,3}(?:[ \u00a0\u2009\u202f][0-9]{3})+"


def _numbers() -> tuple[Hint, ...]:
    comma = "it looks like a decimal comma: `decimal_separator: ','`"
    found = [
        Hint(NUMBERS, f"{_SIGN}{_GROUPED[mark]},{_FRACTION}$", f"; {comma} and `thousands_separator: {_quoted(mark)}`")
        for mark in (".", " ", "'")
    ]
    found += [
        Hint(
            NUMBERS,
            rf"{_SIGN}{_GROUPED[mark]}(?:\.[0-9]*)?$",
            f"; it looks like groups of digits: `thousands_separator: {_quoted(mark)}`",
        )
        for mark in (" ", "'")
    ]
    group = "; it looks like groups of digits: `thousands_separator: ','`"
    found.append(Hint(NUMBERS, rf"{_SIGN}(?:{_GROUPED[',']}\.[0-9]*|[0-9]{{1,3}}(?:,[0-9]{{3}}){{2,}})$", group))
    found.append(Hint((Kind.INT,), rf"{_SIGN}{_GROUPED[',']}$", group))
    either = (
        "; its comma is a decimal comma (`decimal_separator: ','`) or separates groups of digits "
        "(`thousands_separator: ','`)"
    )
    found.append(Hint(NUMBERS, rf"{_SIGN}[1-9][0-9]{{0,2}},[0-9]{{3}}$", either))
    found.append(Hint(NUMBERS, rf"{_SIGN}[0-9]*,{_FRACTION}$", f"; {comma}"))
    grouped = rf"{_SIGN}[0-9]{{1,3}}(?:\.[0-9]{{3}}){{2,}}$"
    found.append(
        Hint(
            NUMBERS,
            grouped,
            "; it looks like groups of digits: `thousands_separator: '.'` with `decimal_separator: ','`",
        )
    )
    point = (
        "; its point separates groups of digits (`thousands_separator: '.'` with `decimal_separator: ','`) or begins a "
        "fraction (declare the column as `float`)"
    )
    found.append(Hint((Kind.INT,), rf"{_SIGN}[1-9][0-9]{{0,2}}\.[0-9]{{3}}$", point))
    found.append(Hint((Kind.INT,), rf"{_SIGN}[0-9]+\.[0-9]+$", "; it has a fraction: declare the column as `float`"))
    return tuple(found)


def _quoted(mark: str) -> str:
    return '"\'"' if mark == "'" else f"'{mark}'"


def _literally(letter: str) -> str:
    """A pattern for a letter, for Python and RE2."""
    return letter if letter.isalnum() else f"[{letter}]" if letter not in "\\^" else "\\" + letter


#: Words for nothing that exports have, as their programs write them.
NULL_WORDS = (
    "NA", "N/A", "n/a", "NULL", "null", "Null", "NIL", "nil", "None", "none", "NaN", r"\N", "-", "--",
    "?", "(null)", "<NA>", "k.A.", "k. A.", "n.a.", "N.A.",
)  # fmt: skip
#: Errors that spreadsheets write into cells: they are no values, and not nothing either.
SPREADSHEET_ERRORS = (
    "#N/A", "#N/A!", "#NV", "#VALUE!", "#REF!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!", "#BEZUG!", "#WERT!", "#ZAHL!",
)  # fmt: skip
#: Numbers with a sign that no column reads: what takes it away.
_SIGNS = tuple(
    Hint(
        NUMBERS,
        pattern,
        f"; {what}: declare the column as `string`, and write `.regex_replace({change})` in a transform",
    )
    for pattern, what, change in (
        (r"^[0-9][0-9., '’]*-$", "its minus stands at its end", r'"^(.*)-$", "-\\1"'),
        (r"^[(][0-9][0-9., '’]*[)]$", "brackets make it negative", r'"^[(](.*)[)]$", "-\\1"'),
        (r"^[+-]?[0-9][0-9., '’]* ?%$", "it has a per cent sign", '" ?%$", ""'),
        (r"^[+-]?[0-9][0-9., '’]* ?(?:[$€£¥]|[A-Z]{3})$", "it has a currency", '" ?[^0-9]+$", ""'),
        (r"^[+-]?(?:[$€£¥]|[A-Z]{3} ?) ?[+-]?[0-9][0-9., '’]*$", "it has a currency", '"[^0-9.,+-]+", ""'),
    )
)
_CONVERTED = (*NUMBERS, Kind.BOOL, *_TIMES)
_ERRORS = Hint(
    _CONVERTED,
    "^(?:" + "|".join(f"#{''.join(map(_literally, word[1:]))}" for word in SPREADSHEET_ERRORS) + ")$",
    "; it is an error of a spreadsheet's formula: correct it there, or in a copy of the file",
)
#: Cells that are empty are null; the texts of typed formats, such as JSON and Parquet, are values.
_EMPTY = Hint(_CONVERTED, "^$", "; an empty text is null only if `null_values: ['']` says so")
_WORDLESS = tuple(
    Hint(
        _CONVERTED,
        f"^{''.join(map(_literally, word))}$",
        f"; it looks like a word for nothing: `null_values: ['{word}']`",
    )
    for word in NULL_WORDS
)
#: Pairs of words for true and false, in small letters.
TRUTHS = (("j", "n"), ("ja", "nein"), ("y", "n"), ("t", "f"), ("x", "-"), ("wahr", "falsch"), ("oui", "non"),
          ("s", "n"), ("si", "no"), ("sí", "no"), ("sim", "não"), ("vrai", "faux"))  # fmt: skip
_TRUTHS = (
    Hint(
        (Kind.BOOL,),
        "(?i)^(?:" + "|".join(dict.fromkeys(word for pair in TRUTHS for word in pair if word != "-")) + ")$",
        "; say the column's words for true and false: `true_values` and `false_values`",
    ),
)
_DAY, _MONTH = "(?:0?[1-9]|[12][0-9]|3[01])", "(?:0?[1-9]|1[0-2])"
_TIME = r"(?:[ T][0-9]{1,2}:[0-9]{2})"


def _dates() -> tuple[Hint, ...]:
    """The forms of dates whose parts are unambiguous, with and without a time of day."""
    found = []
    forms = [
        (rf"{_DAY}[.]{_MONTH}[.]", "%d.%m."),
        (r"(?:1[3-9]|2[0-9]|3[01])[/]" + _MONTH + "[/]", "%d/%m/"),
        (r"(?:1[3-9]|2[0-9]|3[01])[-]" + _MONTH + "[-]", "%d-%m-"),
        (_DAY + "[-][A-Za-z]{3}[-]", "%d-%b-"),
        (_DAY + "[ ][A-Za-z]{3}[ ]", "%d %b "),
    ]
    for pattern, form in forms:
        for year, digits in (("%Y", "[0-9]{4}"), ("%y", "[0-9]{2}")):
            found.append(Hint((Kind.DATE,), f"^{pattern}{digits}$", _looks_like(form + year)))
            for seconds, time in ((":[0-9]{2}", "%H:%M:%S"), ("", "%H:%M")):
                found.append(
                    Hint((Kind.DATETIME,), f"^{pattern}{digits}{_TIME}{seconds}$", _looks_like(f"{form}{year} {time}"))
                )
    found.append(
        Hint((Kind.DATE,), r"^[12][0-9]{3}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])$", _looks_like("%Y%m%d"))
    )
    found.append(Hint((Kind.DATE,), _TIME, "; it has a time of day: declare the column as `date_time`"))
    return tuple(found)


def _looks_like(form: str) -> str:
    return f"; it looks like `format: '{form}'`"


_NUMBERS, _DATES = _numbers(), _dates()


def of_column(column: SourceColumn) -> tuple[Hint, ...]:
    """The hint for texts of a column that do not convert: the first one whose pattern fits."""
    return _of(column.type.kind, column.formats, column.zone is not None, column.spelling)


@lru_cache(maxsize=256)
def _of(kind: Kind, formats: tuple[str, ...], has_zone: bool, spelling: Spelling) -> tuple[Hint, ...]:
    words = (
        _EMPTY,
        _ERRORS,
        *(hint for hint, word in zip(_WORDLESS, NULL_WORDS, strict=True) if word not in spelling.null_values),
    )
    if kind in NUMBERS:
        return (*(() if spelling.spells_numbers else _NUMBERS), *words, *_SIGNS)
    if kind is Kind.BOOL:
        return words if spelling.spells_truth else (*words, *_TRUTHS)
    if kind not in _TIMES:
        return ()
    if formats:
        return (*words, *(hints.SHORT_YEARS if any("%Y" in form for form in formats) else ()))
    return words if has_zone else (*words, hints.OF_COLUMNS[0], *_DATES, *hints.OF_COLUMNS[1:])


def hint_for(text: str, static: Type, column: SourceColumn | None = None) -> str | None:
    """The setting that would read a text that does not convert to a type; None if there is none.

    Args:
        text: the text.
        static: the declared type.
        column: what else the column declares; nothing where it is absent.
    """
    found = _of(static.kind, (), False, USUAL) if column is None else of_column(column)
    return hints.of_text(found, static.kind, text).lstrip(":; ") or None
