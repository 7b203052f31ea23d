"""Infers the type of a column and the spelling of its values from all of its values.

The inference applies the rules of sources: `formats/spelling.py` for numbers and `formats/date_forms.py` for dates. If
two readings give different values and nothing in the file decides between them, the column stays text, and a remark
says so.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.guess import codes
from spark_jobs.cxl import decimals, values
from spark_jobs.cxl.dates import strftime
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import hints
from spark_jobs.formats.spelling import USUAL, Spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The part of a column's values that may be of another kind: they are reported, and become dead letters.
_ODD_SHARE = 0.05
#: The most distinct values that are inspected.
_MOST_DISTINCT = 50_000
_ERRORS = frozenset(hints.SPREADSHEET_ERRORS)
_NULL_WORDS = frozenset({*hints.NULL_WORDS, "na", "n.a", "NaT", "nan", "---", ".", "..", "...", "*", "–", "—"})
_TRUTHS = frozenset({"true", "false", "yes", "no", "on", "off"})
_NUMBERISH = re.compile(r"[+-]?[0-9.,'’_ \u00a0\u2009\u202f]*[0-9][0-9.,'’_ \u00a0\u2009\u202f]*(?:[eE][+-]?[0-9]+)?")
#: Blanks that look like the usual one.
_BLANKS = re.compile("[\u00a0\u2009\u202f]")
_SIGNED = re.compile(r"[$€£¥₹]|\b(?:EUR|USD|GBP|CHF|JPY)\b|%")
#: Numbers with a minus as it is printed.
_OTHER_MINUS = re.compile(r"[\u2212\u2013\u2012][0-9][0-9.,]*")
#: Negative numbers as bookkeepers write them: in brackets, or with a minus at their end.
_UNIT = r"[^0-9()'\";,.-]{0,5}"
_NEGATIVE = re.compile(rf"{_UNIT}\({_UNIT}[0-9][0-9.,'’ ]*{_UNIT}\){_UNIT}|{_UNIT}[0-9][0-9.,'’ ]*-{_UNIT}")
_NEGATED = '.regex_replace("^(.*?)(?:[(](.*)[)].*|-[^0-9]*)$", "-\\\\1\\\\2")'
_SPELLINGS = (
    USUAL,
    Spelling(",", ""),
    Spelling(".", ","),
    Spelling(",", "."),
    Spelling(".", " "),
    Spelling(",", " "),
    Spelling(".", "'"),
    Spelling(",", "'"),
    Spelling(".", "_"),
)
#: Years of two digits that span so many may be of two centuries, and so may birthdays.
_YEARS = 50
_BIRTH = re.compile(r"birth|born|dob|geb|naiss|nacim|nascita", re.IGNORECASE)
_DATE_NAME = re.compile(r"date|datum|day|tag|fecha|data|jour|_on$|_at$|^dt|_dt$", re.IGNORECASE)


@dataclass
class Remark:
    """Something to know about a column; `is_doubt` where a person has to decide."""

    text: str
    is_doubt: bool = False


@dataclass
class Column:
    """The guessed properties of a column.

    Args:
        name: its name.
        type: its declared type.
        keys: further keys of it in `schema:`.
        remarks: remarks for the user.
        is_unique: whether each record has a value of its own.
        notes: remarks for the user about values that are read as something else than they look like.
    """

    name: str
    type: str = "string"
    keys: dict[str, Any] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    is_unique: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass
class Evidence:
    """Evidence from columns with certain spellings that decides the others.

    Args:
        decimals: the separators of fractions that are certain.
        groups: the separators of digit groups that are certain.
        day_first: the marks between the parts of dates whose days certainly come before months.
        month_first: the marks between the parts of dates whose months certainly come before days.
        has_semicolons: whether semicolons stand between fields, as where commas begin fractions.
    """

    decimals: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    day_first: set[str] = field(default_factory=set)
    month_first: set[str] = field(default_factory=set)
    has_semicolons: bool = False


def guess(columns: Sequence[tuple[str, Counter[str], int]], *, has_semicolons: bool = False) -> list[Column]:
    """The types of columns.

    Args:
        columns: of each its name, its values with their counts (the empty ones left out), and how many records there
            are.
        has_semicolons: whether semicolons stand between the fields of the file.
    """
    trimmed = [_most_common(found) for _, found, _ in columns]
    evidence = Evidence(has_semicolons=has_semicolons)
    for found in trimmed:
        _collect(found, evidence)
    guessed = []
    for (name, found, records), some in zip(columns, trimmed, strict=True):
        column = _guess(name, some, evidence)
        column.is_unique = (
            records > 1 and len(found) == records == found.total() and column.type in ("int", "string", "date")
        )
        guessed.append(column)
    return guessed


def _most_common(found: Counter[str]) -> Counter[str]:
    return found if len(found) <= _MOST_DISTINCT else Counter(dict(itertools.islice(found.items(), _MOST_DISTINCT)))


def _collect(found: Counter[str], evidence: Evidence) -> None:
    """Add the evidence of a column that can be read in one way only."""
    core = _without_nulls(found)
    if not core:
        return
    fitting = _fitting_spellings(core, share=1 - _ODD_SHARE)
    if fitting and USUAL not in fitting:
        decimals = {one.decimal_separator for one in fitting}
        if len(decimals) == 1:
            evidence.decimals |= decimals
        groups = {one.thousands_separator for one in fitting}
        if len(groups) == 1:
            evidence.groups |= groups
    days, months = _marks_of_orders(core)
    evidence.day_first |= days
    evidence.month_first |= months


def _without_nulls(found: Counter[str]) -> Counter[str]:
    return Counter({text: count for text, count in found.items() if text not in _NULL_WORDS | _ERRORS})


def _guess(name: str, found: Counter[str], evidence: Evidence) -> Column:
    nulls = [text for text in found if text in _NULL_WORDS]
    core = _without_nulls(found)
    if not core:
        column = Column(name)
        if not found:
            column.remarks.append(Remark("no value"))
        return column
    column = (
        _truths(name, core) or _numbers(name, core, evidence) or _dates(name, core, evidence) or _texts(name, found)
    )
    if column.type != "string" and nulls:
        column.keys["null_values"] = sorted(nulls)
        are = "is" if len(nulls) == 1 else "are"
        column.notes.append(f"{', '.join(map(shown, sorted(nulls)))} {are} null (`null_values`)")
    if column.type != "string" and (errors := sorted(text for text in found if text in _ERRORS)):
        listed = ", ".join(map(shown, errors))
        column.notes.append(
            f"{listed} is an error of a spreadsheet, and no null: its records become dead letters"
            if len(errors) == 1
            else f"{listed} are errors of a spreadsheet, and no null: their records become dead letters"
        )
    return column


def _texts(name: str, found: Counter[str]) -> Column:
    column = Column(name)
    total = found.total()
    numbers = sum(count for text, count in found.items() if _NUMBERISH.fullmatch(text))
    signed = next((text for text in found if _SIGNED.search(text) and any(map(str.isdigit, text))), None)
    with_sign = sum(count for text, count in found.items() if _SIGNED.search(text) and any(map(str.isdigit, text)))
    negative = {text: count for text, count in found.items() if _NEGATIVE.fullmatch(text)}
    if signed is not None and with_sign > 0.9 * total:
        column.remarks.append(Remark(f"numbers with a sign, like {shown(signed)}: {_without_sign(found)}"))
    elif minus := next((text for text in found if _OTHER_MINUS.fullmatch(text)), None):
        said = f'text: {shown(minus)} has another sign than `-`: `.replace("{minus[0]}", "-").to_float()`'
        column.remarks.append(Remark(said))
    elif negative and numbers + sum(negative.values()) > 0.9 * total:
        said = f"text: negative numbers, like {shown(next(iter(negative)))}: {_without_sign(found)}"
        column.remarks.append(Remark(said))
    elif numbers >= 0.5 * total and numbers < total:
        odd = next(text for text in found if not _NUMBERISH.fullmatch(text))
        share = f"{numbers} of {total}"
        column.remarks.append(Remark(f"text: {share} values are numbers, others are like {shown(odd)}"))
    return column


def _without_sign(found: Iterable[str]) -> str:
    """The CXL that turns texts with signs into numbers; the first unambiguous text gives the decimal separator."""
    alone, texts = "", list(found)
    negated = _NEGATED if any(map(_NEGATIVE.fullmatch, texts)) else ""
    for text in texts:
        marks = re.findall(r"[.,](?=[0-9])", text)
        digits = re.search(r"[.,]([0-9]+)[^0-9]*$", text)
        if digits is None:
            continue
        if len(digits[1]) != 3 or (len(set(marks)) == 2 and marks.count(marks[-1]) == 1):
            return _to_float(marks[-1], negated)
        alone = marks[-1]
    if not alone:
        return _to_float("", negated)
    either = _to_float(alone, negated), _to_float("", negated)
    return f"{either[0]} if `{alone}` begins a fraction, {either[1]} if it separates groups of digits"


def _to_float(decimal: str, negated: str) -> str:
    comma = '.replace(",", ".")' if decimal == "," else ""
    return f'`{negated}.regex_replace("[^0-9{decimal}+-]", ""){comma}.to_float()`'


def shown(text: str) -> str:
    """A value as messages show it."""
    from spark_jobs.diagnostics.printable import printable

    seen = printable(text if len(text) <= 40 else text[:39] + "…")
    return f"`{_BLANKS.sub(lambda blank: f'<U+{ord(blank[0]):04X}>', seen)}`"


def is_null_word(text: str) -> bool:
    """Whether a text is a word for nothing, such as `n/a`."""
    return text in _NULL_WORDS


def column_notes(columns: Iterable[Column]) -> list[str]:
    """The notes on columns, a line each."""
    return [f"column {shown(column.name)}: {text}" for column in columns for text in column.notes]


def _is_odd(odd: int, total: int) -> bool:
    """Whether too many values do not fit."""
    return odd > max(1, _ODD_SHARE * total) or total - odd < 3 * odd


# ---- truth values ----------------------------------------------------------------------------------


def _truths(name: str, core: Counter[str]) -> Column | None:
    words = {text.lower() if text.isascii() else text for text in core}
    if words in ({"no"}, {"on"}):
        return None  # Norway and Ontario
    if words <= _TRUTHS:
        return Column(name, "bool")
    for true, false in hints.TRUTHS:
        if words == {true, false} and false != "-":
            usual = {"true_values": [true], "false_values": [false]}
            if words == {"s", "n"}:  # sí and no, or south and north
                said = "text: if `s` means yes, `bool` with `true_values: [s]` and `false_values: [n]`"
                return Column(name, remarks=[Remark(said, is_doubt=True)])
            return Column(name, "bool", {key: given for key, given in usual.items() if given[0] not in _TRUTHS})
    return None


# ---- numbers ---------------------------------------------------------------------------------------


@cache
def _pattern(spelling: Spelling) -> re.Pattern[str]:
    return re.compile(spelling.number, re.ASCII)


def _fits(text: str, spelling: Spelling) -> bool:
    return bool(_pattern(spelling).fullmatch(text)) and text[-1] not in "ny"  # inf and nan are words here


def _fitting_spellings(core: Counter[str], share: float) -> list[Spelling]:
    total = core.total()
    numbers = {text: count for text, count in core.items() if _NUMBERISH.fullmatch(text)}
    if not numbers or sum(numbers.values()) < share * total or all(map(codes.WHOLE.fullmatch, numbers)):
        return []
    counts = {
        one: sum(count for text, count in numbers.items() if _fits(text, one))
        for one in _SPELLINGS
        if one is USUAL or any(mark in text for text in numbers for mark in one.grouping + one.decimal_separator)
    }
    best = max(counts.values())
    if best < share * total or not best:
        return []
    return [one for one, count in counts.items() if count == best]


def _value(text: str, spelling: Spelling) -> float | None:
    try:
        return float(spelling.usual(text, Kind.FLOAT) or "nan")
    except ValueError:
        return None


def _numbers(name: str, core: Counter[str], evidence: Evidence) -> Column | None:
    total = core.total()
    whole = sum(count for text, count in core.items() if codes.WHOLE.fullmatch(text))
    if not _is_odd(total - whole, total):
        return _with_groups(_whole(name, core), core, evidence)
    share = max(0.0, 1 - max(1, _ODD_SHARE * total) / total)
    fitting = _fitting_spellings(core, share)
    if not fitting:
        return None
    odd = total - sum(count for text, count in core.items() if _fits(text, fitting[0]))
    if _is_odd(odd, total):
        return None
    chosen, doubt = _chosen(core, fitting, evidence)
    if chosen is None:
        return Column(name, remarks=[Remark(doubt or "", is_doubt=True)])
    fits = [text for text in core if _fits(text, chosen)]
    if (no_number := _as_codes(name, fits, chosen)) is not None:
        return no_number
    is_whole = all(chosen.decimal_separator not in text and "e" not in text.lower() for text in fits)
    column = Column(name, "int" if is_whole else "float", remarks=[Remark(doubt)] if doubt else [])
    if doubt and "is taken for" in doubt:
        column.notes.append(doubt)
    if chosen.decimal_separator != ".":
        column.keys["decimal_separator"] = chosen.decimal_separator
    if chosen.thousands_separator:
        column.keys["thousands_separator"] = chosen.thousands_separator
    if column.type == "float":
        _keep_digits(column, [chosen.usual(text, Kind.FLOAT) or "" for text in fits])
        if (cut := codes.shortened(fits)) is not None:
            column.notes.append(f"{shown(cut)} looks as if a spreadsheet had left out its last digits")
        if (twin := codes.same(fits, chosen)) is not None:
            said = f"{shown(twin[0])} and {shown(twin[1])} are the same number; declare `string` if they differ"
            column.remarks.append(Remark(said))
    return column


def _as_codes(name: str, numbers: Sequence[str], spelling: Spelling) -> Column | None:
    """The column of texts if its numbers are none."""
    found = codes.reason(name, numbers, spelling)
    if found is None:
        return None
    reason, example, is_doubt = found
    said = f"text: {shown(example)}: {reason}"
    return Column(name, remarks=[Remark(said, is_doubt=is_doubt)], notes=[] if is_doubt else [said])


def _keep_digits(column: Column, written: Sequence[str]) -> None:
    """Have a column of numbers be exact if some have more digits than a Float is sure to hold; see `exact`."""

    def digits(text: str) -> int:
        return len(text.lstrip("+-").lower().partition("e")[0].replace(".", "").strip("0"))

    longest = max(written, key=digits)
    if digits(longest) > sys.float_info.dig:
        exact(column, written, longest.lstrip("+-").lower())


def exact(column: Column, written: Iterable[str], longest: str) -> None:
    """Have a column of numbers keep all digits.

    Args:
        column: it; text if no Decimal holds them all.
        written: its numbers, with a point.
        longest: one that a Float would round.
    """
    numbers = [text.lstrip("+-").lower() for text in written]
    whole = max(len(text.partition(".")[0].lstrip("0")) for text in numbers)
    scale = max(len(text.partition(".")[2]) for text in numbers)
    said = f"a Float would not keep all digits of {shown(longest)}"
    if any("e" in text for text in numbers) or whole + scale > decimals.MAX_DIGITS:
        column.type, column.keys = "string", {}
        column.remarks.append(Remark(f"text: {said}"))
    else:
        column.type = f"decimal({whole + scale},{scale})"
        column.remarks.append(Remark(said))


def _whole(name: str, core: Counter[str]) -> Column:
    numbers = [text for text in core if codes.WHOLE.fullmatch(text)]
    if any(map(codes.LEADING_ZERO.fullmatch, numbers)):
        return Column(name, remarks=[Remark("text: some numbers begin with a zero")])
    if any(not values.MIN_INT <= int(text) <= values.MAX_INT for text in numbers if len(text) > 18):
        return Column(name, remarks=[Remark("text: some numbers are beyond 64 bits")])
    if all(text.startswith("+") and len(text) > 7 for text in numbers):
        return Column(name)  # telephone numbers
    if len(numbers) == len(core) and _DATE_NAME.search(name) and all(_compact_day(text) for text in numbers):
        return Column(name, "date", {"format": "%Y%m%d"})
    return Column(name, "int")


def _with_groups(column: Column, core: Counter[str], evidence: Evidence) -> Column:
    """A column of whole numbers, some of whose others have groups of digits as other columns of the file have them."""
    others = [text for text in core if _NUMBERISH.fullmatch(text) and not codes.WHOLE.fullmatch(text)]
    if column.type != "int" or len(evidence.decimals) != 1 or not others:
        return column
    (decimal,) = evidence.decimals
    read = {
        one: [text for text in others if _fits(text, one) and any(mark in text for mark in one.grouping)]
        for one in _SPELLINGS
        if one.decimal_separator == decimal
        and one.thousands_separator
        and (not evidence.groups - {""} or one.thousands_separator in evidence.groups)
    }
    chosen = max(read, key=lambda one: len(read[one]), default=None)
    if chosen is None or not read[chosen]:
        return column
    if any(decimal in text for text in read[chosen]):
        column.type = "float"
    if decimal != ".":
        column.keys["decimal_separator"] = decimal
    column.keys["thousands_separator"] = chosen.thousands_separator
    column.remarks.append(Remark(f"{shown(read[chosen][0])} is read as other columns are written"))
    return column


def _compact_day(text: str) -> bool:
    if len(text) != 8 or not "1900" <= text[:4] <= "2100":
        return False
    return strftime.parse_date(text, "%Y%m%d") is not None


def _chosen(core: Counter[str], fitting: list[Spelling], evidence: Evidence) -> tuple[Spelling | None, str | None]:
    """The spelling that counts, or why none does."""
    readings: dict[tuple[float | None, ...], Spelling] = {}
    for spelling in fitting:
        readings.setdefault(tuple(_value(text, spelling) for text in core), spelling)
    if len(readings) == 1:
        # The spellings with fewer marks come first.
        return fitting[0], None
    candidates = list(readings.values())
    by_file = [
        one
        for one in candidates
        if one.decimal_separator in evidence.decimals or (one.thousands_separator or None) in evidence.groups
    ]
    if evidence.decimals and len(by_file) == 1:
        example = next(text for text in core if len({_value(text, one) for one in candidates}) > 1)
        return by_file[0], f"{shown(example)} is read as other columns are written"
    example = next(text for text in core if len({_value(text, one) for one in candidates}) > 1)
    if USUAL in candidates and not evidence.decimals:
        # A point before three digits is a fraction, unless something else in the file has a decimal comma.
        if not all(re.fullmatch(r"[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+", text) for text in core):
            return USUAL, None
        if not evidence.has_semicolons:
            return USUAL, f"{shown(example)} is taken for a fraction; else `thousands_separator: '.'`"
    said = " or ".join(f"`{_value(example, one):.10g}`" for one in candidates[:2])
    return None, (
        f"text: {shown(example)} may be {said}, and nothing in the file tells: say `decimal_separator` or "
        "`thousands_separator`"
    )


# ---- dates -----------------------------------------------------------------------------------------

_NUMERIC_DAY = re.compile(r"([0-9]{1,4})([-./])([0-9]{1,2})\2([0-9]{1,4})(.*)", re.DOTALL)
_NAMED_DAY = re.compile(
    r"(?:([0-9]{1,2})([- .]{1,2})([A-Za-z]{3,9})\.?([-, ]{1,2})([0-9]{4}|[0-9]{2})"
    r"|([A-Za-z]{3,9})\.? ([0-9]{1,2}), ?([0-9]{4}))(.*)",
    re.DOTALL,
)
_TIME = re.compile(
    r"(T|, | )([0-9]{1,2}):([0-9]{2})(:[0-9]{2})?([.,][0-9]{1,9})?( ?[AaPp][Mm])?"
    r"( ?(?:Z|[+-][0-9]{2}:?[0-9]{2}|UTC|GMT))?"
)


def _forms(text: str) -> Iterator[str]:
    """The forms that a text may be a date or a date-time of, the usual one first."""
    numeric = _NUMERIC_DAY.fullmatch(text)
    if numeric is not None:
        first, mark, _, last, rest = numeric.groups()
        days = _numeric_days(first, mark, last)
    elif (named := _NAMED_DAY.fullmatch(text)) is not None:
        rest = named[9]
        days = _named_days(named)
    else:
        return
    time = _time_form(rest)
    if time is not None:
        yield from (day + time for day in days)


def _numeric_days(first: str, mark: str, last: str) -> list[str]:
    if len(first) == 4:
        return [f"%Y{mark}%m{mark}%d"]
    year = "%Y" if len(last) == 4 else "%y" if len(last) == 2 else None
    if year is None or len(first) > 2:
        return []
    days = [f"%d{mark}%m{mark}{year}", f"%m{mark}%d{mark}{year}"]
    return [*days, f"%y{mark}%m{mark}%d"] if year == "%y" and len(first) == 2 else days


def _named_days(found: re.Match[str]) -> list[str]:
    name = found[3] or found[6]
    month = "%b" if len(name) == 3 else "%B"
    if found[6]:
        between = ", " if ", " in found[0] else ","
        return [f"{month} %d{between}%Y", *([f"%B %d{between}%Y"] if month == "%b" else [])]
    year = "%Y" if len(found[5]) == 4 else "%y"
    return [f"%d{found[2]}{one}{found[4]}{year}" for one in dict.fromkeys((month, "%B"))]


def _time_form(rest: str) -> str | None:
    if not rest:
        return ""
    found = _TIME.fullmatch(rest)
    if found is None:
        return None
    before, _, _, seconds, fraction, half, zone = found.groups()
    if fraction and (not seconds or fraction[0] == "," or len(fraction) > 7):
        return None
    form = before + ("%I" if half else "%H") + ":%M" + (":%S" if seconds else "") + ("%.f" if fraction else "")
    form += (" %p" if half.startswith(" ") else "%p") if half else ""
    if zone:
        if zone.strip() in ("UTC", "GMT"):
            return None
        form += " %z" if zone.startswith(" ") else "%z"
    return form


def _reads(text: str, form: str) -> bool:
    return _day(text, form) is not None


def _marks_of_orders(core: Counter[str]) -> tuple[set[str], set[str]]:
    """The marks of dates that certainly begin with the day, and the marks of dates that begin with the month."""
    first, second = set(), set()
    for text in core:
        numeric = _NUMERIC_DAY.fullmatch(text)
        if numeric is None or len(numeric[1]) > 2:
            continue
        if 12 < int(numeric[1]) <= 31 and int(numeric[3]) <= 12:
            first.add(numeric[2])
        if 12 < int(numeric[3]) <= 31 and int(numeric[1]) <= 12:
            second.add(numeric[2])
    return first - second, second - first


def _dates(name: str, core: Counter[str], evidence: Evidence) -> Column | None:
    counts: Counter[str] = Counter()
    of_text: dict[str, list[str]] = {}
    total, left = core.total(), core.total()
    for text, count in core.items():
        of_text[text] = [form for form in _forms(text) if _reads(text, form)]
        left -= count
        for form in of_text[text]:
            counts[form] += count
        if not counts and left < total / 2:
            return None
    dated = sum(count for text, count in core.items() if of_text[text])
    if not counts or _is_odd(total - dated, total):
        return None
    return _dated(name, core, of_text, evidence)


def _dated(name: str, core: Counter[str], of_text: dict[str, list[str]], evidence: Evidence) -> Column | None:
    texts = {text: forms for text, forms in of_text.items() if forms}
    timed = sum(core[text] for text, forms in texts.items() if _has_time(forms[0]))
    whole = sum(core[text] for text in texts)
    is_timed = timed > whole - timed
    if _is_odd(core.total() - timed, core.total()) if is_timed else _is_odd(timed, whole):
        return Column(name, remarks=[Remark("text: dates with and without a time of day")])
    day_first = _is_day_first(texts, evidence)
    if isinstance(day_first, Column):
        day_first.name = name
        return day_first
    if (year_first := _perhaps_year_first(texts)) is not None:
        return Column(name, remarks=[year_first])
    chosen = _covering(
        {text: forms for text, forms in texts.items() if _has_time(forms[0]) == is_timed}, core, day_first=day_first
    )
    kind, usual = ("date_time", _usual_moments()) if is_timed else ("date", ("%Y-%m-%d",))
    column = Column(name, kind)
    zoned = [form for form in chosen if "%z" in form]
    if zoned:
        if len(zoned) < len(chosen):
            return Column(name, remarks=[Remark("text: moments with and without an offset")])
        column.keys["timezone"] = "UTC"
        column.remarks.append(Remark("moments become local times of the `timezone`"))
        usual = _usual_zoned()
    written = [form for form in chosen if form not in usual]
    if len(written) == 1:
        column.keys["format"] = written[0]
    elif written:
        column.keys["format"] = written
    if (example := _by_evidence(core, texts)) is not None:
        column.remarks.append(Remark(f"{shown(example)} is read as other columns are written"))
    return _with_short_years(column, texts, chosen)


def _by_evidence(core: Counter[str], texts: dict[str, list[str]]) -> str | None:
    """A text whose day and month only other columns tell; None where the column itself does."""
    decided = set().union(*_marks_of_orders(core))
    return next((text for text in _of_either_order(texts) if _mark(text) not in decided), None)


def _perhaps_year_first(texts: dict[str, list[str]]) -> Remark | None:
    """A doubt where dates such as `23-04-12` may begin with their year."""
    if not all(any(form.startswith("%y") for form in forms) and "." not in text for text, forms in texts.items()):
        return None
    parts = [re.split(r"[-/]", text[:8]) for text in texts]
    if len({part[0] for part in parts}) > len({part[2] for part in parts}):
        return None
    text = next(iter(texts))
    said = " or ".join(f"`format: '{form}'`" for form in texts[text])
    return Remark(f"text: {shown(text)} may be {said}, and nothing in the file tells", is_doubt=True)


def _with_short_years(column: Column, texts: dict[str, list[str]], chosen: Sequence[str]) -> Column:
    """The column with remarks about two-digit years; a text column if the century is in doubt."""
    short = [form for form in chosen if "%y" in form]
    days = {text: _day(text, form) for form in short for text in texts if form in texts[text]}
    if not days:
        return column
    first, last = min(days, key=days.__getitem__), max(days, key=days.__getitem__)
    if days[last].year - days[first].year < _YEARS and not _BIRTH.search(column.name):
        column.remarks.append(Remark(f"{shown(last)} is in {days[last].year}"))
        return column
    said = (
        f"text: as `{column.type}` with `format: '{short[0]}'`, {shown(first)} is in {days[first].year} "
        f"and {shown(last)} in {days[last].year}"
    )
    return Column(column.name, remarks=[Remark(said, is_doubt=True)])


def _usual_moments() -> tuple[str, ...]:
    return tuple(f"%Y-%m-%d{mark}%H:%M:%S{end}" for mark in "T " for end in ("", "%.f"))


def _usual_zoned() -> tuple[str, ...]:
    return tuple(
        f"%Y-%m-%d{mark}%H:%M{end}{blank}%z" for mark in "T " for end in ("", ":%S", ":%S%.f") for blank in ("", " ")
    )


def _covering(texts: dict[str, list[str]], core: Counter[str], *, day_first: bool) -> list[str]:
    """The fewest forms that read all texts, the most frequent first, with one order of days and months."""
    has_months_first = any(_mark(text) == "." and all(map(_is_month_first, forms)) for text, forms in texts.items())
    allowed = {}
    for text, forms in texts.items():
        is_first = not has_months_first if _mark(text) == "." else day_first
        allowed[text] = [form for form in forms if form[:2] != ("%m" if is_first else "%d")] or forms
    chosen: list[str] = []
    while allowed:
        counts: Counter[str] = Counter()
        for text, forms in allowed.items():
            for form in forms:
                counts[form] += core[text]
        chosen.append(max(counts, key=lambda form: counts[form]))
        allowed = {text: forms for text, forms in allowed.items() if chosen[-1] not in forms}
    return chosen


def _is_month_first(form: str) -> bool:
    return form.startswith("%m")


def _has_time(form: str) -> bool:
    return "%H" in form or "%I" in form


def _is_day_first(texts: dict[str, list[str]], evidence: Evidence) -> bool | Column:
    """Whether days stand before months; a text column where that cannot be decided."""
    days = any(forms[0].startswith("%d") and not any(f.startswith("%m") for f in forms) and forms[0][2] in "-./"
               for forms in texts.values())  # fmt: skip
    months = any(all(f.startswith("%m") for f in forms) for forms in texts.values())
    months = months and any(_NUMERIC_DAY.fullmatch(text) for text, forms in texts.items() if forms[0][:2] == "%m")
    if days and months:
        return Column("", remarks=[Remark("text: days stand first in some dates, months in others", is_doubt=True)])
    order = days if days or months else None
    for text in _of_either_order(texts):
        known = _order_elsewhere(_mark(text), evidence)
        if known is None or order not in (None, known):
            said = " or ".join(f"`format: '{form}'`" for form in texts[text][:2])
            doubt = f"text: {shown(text)} may be {said}, and nothing in the file tells"
            return Column("", remarks=[Remark(doubt, is_doubt=True)])
        order = known
    return order is not False


def _of_either_order(texts: dict[str, list[str]]) -> Iterator[str]:
    """The dates that are other days where months stand first; between points days do."""
    for text, forms in texts.items():
        days = {_day(text, form) for form in forms if form.startswith(("%d", "%m"))}
        if len(days) > 1 and _mark(text) != ".":
            yield text


def _mark(text: str) -> str:
    numeric = _NUMERIC_DAY.fullmatch(text)
    return numeric[2] if numeric is not None else ""


def _order_elsewhere(mark: str, evidence: Evidence) -> bool | None:
    """Whether days stand first in dates with a mark, as other dates of the file have it; None where none tells.

    Dates with points do not tell: their days stand first everywhere.
    """
    for marks in ({mark}, {"-", "/"}):
        days, months = bool(evidence.day_first & marks), bool(evidence.month_first & marks)
        if days != months:
            return days
        if days:
            return None
    return None


def _day(text: str, form: str) -> Any:
    read = strftime.parse_datetime if _has_time(form) else strftime.parse_date
    return read(text, form)


def moments_or_days(name: str, found: Iterable[str]) -> Column:
    """A column of JSON texts: dates where all of them are, texts else."""
    core = Counter(found)
    column = _dates(name, core, Evidence()) if core else None
    return column if column is not None else Column(name)
