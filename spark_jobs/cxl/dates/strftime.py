"""Date formats: `strftime` codes as chrono reads them, for writing and parsing.

A format is compiled once. Names are English unless the format has others (`calendar.py`). Values have no zone: `%z` can
only be parsed, and a text with an offset becomes the local time of the format's zone (`zones.py`), or UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from spark_jobs.cxl import failure
from spark_jobs.cxl.dates import calendar, zones

if TYPE_CHECKING:
    from spark_jobs.cxl.dates.calendar import Name, Names

_EPOCH = datetime(1970, 1, 1)
#: Codes that stand for several others.
_COMPOSITES = {
    "D": "%m/%d/%y",
    "x": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "v": "%e-%b-%Y",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "X": "%H:%M:%S",
    "r": "%I:%M:%S %p",
    "c": "%a %b %e %H:%M:%S %Y",
    "h": "%b",
}
_CODE = re.compile(r"%(?:([-_0]?)([A-Za-z])|(\.?[369]?f)|([%])|(:z))")
#: An offset, however it is written: `Z`, `+02`, `+0200`, `+02:00`.
_OFFSET = "([Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"
#: A literal `Z` after a time of day means UTC.
_UTC = re.compile(r"(\s*)(Z)(?![A-Za-z])")

TextWriter = Callable[[datetime], str]


#: Numeric codes: the number, its width, its padding.
_NUMBERS: dict[str, tuple[Callable[[datetime], int], int, str]] = {
    "Y": (lambda t: t.year, 4, "0"),
    "C": (lambda t: t.year // 100, 2, "0"),
    "y": (lambda t: t.year % 100, 2, "0"),
    "m": (lambda t: t.month, 2, "0"),
    "d": (lambda t: t.day, 2, "0"),
    "e": (lambda t: t.day, 2, " "),
    "w": (lambda t: t.isoweekday() % 7, 1, "0"),
    "u": (lambda t: t.isoweekday(), 1, "0"),
    "U": (lambda t: (t.timetuple().tm_yday + 6 - t.isoweekday() % 7) // 7, 2, "0"),
    "W": (lambda t: (t.timetuple().tm_yday + 6 - t.weekday()) // 7, 2, "0"),
    "G": (lambda t: t.isocalendar()[0], 4, "0"),
    "g": (lambda t: t.isocalendar()[0] % 100, 2, "0"),
    "V": (lambda t: t.isocalendar()[1], 2, "0"),
    "j": (lambda t: t.timetuple().tm_yday, 3, "0"),
    "H": (lambda t: t.hour, 2, "0"),
    "k": (lambda t: t.hour, 2, " "),
    "I": (lambda t: t.hour % 12 or 12, 2, "0"),
    "l": (lambda t: t.hour % 12 or 12, 2, " "),
    "M": (lambda t: t.minute, 2, "0"),
    "S": (lambda t: t.second, 2, "0"),
    "s": (lambda t: (t - _EPOCH) // timedelta(seconds=1), 1, "0"),
}
_TEXTS: dict[str, Callable[[Names, datetime], str]] = {
    "b": lambda names, t: names.short_months[t.month - 1][0],
    "B": lambda names, t: names.months[t.month - 1][0],
    "a": lambda names, t: names.short_days[t.weekday()][0],
    "A": lambda names, t: names.days[t.weekday()][0],
    "p": lambda names, t: names.halves[t.hour >= 12][0],
    "P": lambda names, t: names.halves[t.hour >= 12][0].lower(),
    "t": lambda names, t: "\t",
    "n": lambda names, t: "\n",
}
#: The digits that a numeric field takes when it is parsed; fields take as many as they can and give none back.
_DIGITS = {"C": 2, "j": 3, "w": 1, "u": 1, "s": 18}
#: The numbers of digits of years, which take no fewer: two digits under `%Y` are a mistake, not the first century.
_YEARS = {"Y": 4, "G": 4, "y": 2, "g": 2}
_FLAGS = {"-": "", "_": " ", "0": "0"}


@dataclass(frozen=True)
class Format:
    """A compiled format: `writers` write a moment, `pattern` reads one into `fields`, the codes of its groups."""

    writers: tuple[TextWriter, ...]
    pattern: re.Pattern[str]
    fields: tuple[str, ...]
    uses_time: bool
    names: Names = calendar.ENGLISH

    def write(self, moment: datetime) -> str:
        """The text of a moment."""
        return "".join([writer(moment) for writer in self.writers])

    def read(self, text: str) -> dict[str, str] | None:
        """The fields of a text by code, None where it does not have this form."""
        found = self.pattern.fullmatch(text)
        if found is None:
            return None
        fields: dict[str, str] = {}
        for code, value in zip(self.fields, found.groups(), strict=True):
            value = self._number(code, value)
            if fields.setdefault(code, value) != value:
                return None  # a field that stands twice has to say the same
        return fields

    def _number(self, code: str, value: str) -> str:
        """A name as its number, from 0; numbers as they are."""
        numbers = {"b": "of_months", "a": "of_days", "p": "of_halves"}.get(code.lower() if code in "bBaApP" else "")
        return str(getattr(self.names, numbers)[value.casefold()]) if numbers else value


def _number_writer(code: str, flag: str) -> TextWriter:
    number, width, padding = _NUMBERS[code]
    padding = _FLAGS.get(flag, padding)
    return (lambda t: str(number(t)).rjust(width, padding)) if padding else (lambda t: str(number(t)))


def _fraction_writer(code: str) -> TextWriter:
    dot = "." if code.startswith(".") else ""
    digits = code.strip(".f")
    if digits:
        return lambda t: dot + f"{t.microsecond:06d}000"[: int(digits)]
    if not dot:
        return lambda t: f"{t.microsecond:06d}000"

    def shortest(moment: datetime) -> str:
        if not moment.microsecond:
            return ""
        text = f".{moment.microsecond:06d}"
        return text[:-3] if text.endswith("000") else text

    return shortest


def _one_of(*kinds: tuple[Name, ...]) -> str:
    """The pattern of names, longer ones first; letters beyond ASCII in the cases that they are written in."""
    spellings = {spelling for names in kinds for name in names for spelling in name}
    cases = {each for one in spellings for each in (one, one.lower(), one.upper(), one.capitalize())}
    return rf"((?i:{'|'.join(map(re.escape, sorted(cases, key=lambda each: (-len(each), each))))}))"


def _group(code: str, names: Names) -> str:
    """The pattern of a code when it is parsed."""
    if code in _YEARS:
        return rf"\s*([0-9]{{{_YEARS[code]}}})"
    if code in _NUMBERS:
        return rf"\s*([0-9]{{1,{_DIGITS.get(code, 2)}}}+)"
    match code:
        case "b" | "B":
            # A long name may be written short, and a short code takes the long name's beginning only.
            return _one_of(names.short_months) if code == "b" else _one_of(names.months, names.short_months)
        case "a" | "A":
            return _one_of(names.short_days) if code == "a" else _one_of(names.days, names.short_days)
        case "p" | "P":
            return _one_of(names.halves)
        case "z":
            return rf"\s*{_OFFSET}"
        case "Z":
            return "(Z)"
        case "f":
            return "([0-9]{1,9}+)"
        case ".f":
            return r"((?:\.[0-9]{1,9}+)?)"
        case _:
            digits = code.strip(".f")
            return rf"(\.[0-9]{{{digits}}})" if code.startswith(".") else rf"([0-9]{{{digits}}})"


def _tokens(form: str) -> list[tuple[str, str]]:
    """Pairs of (flag, code) and, for literal text, ("literal", text). `ValueError` names a wrong code."""
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(form):
        if form[position] != "%":
            end = form.find("%", position)
            end = len(form) if end < 0 else end
            tokens.extend(_literal(form[position:end], tokens))
            position = end
            continue
        code = _CODE.match(form, position)
        if code is None:
            raise ValueError(f"`{form[position : position + 2]}` is not a date code")
        flag, letter, fraction, percent, offset = code.groups()
        position = code.end()
        if percent:
            tokens.append(("literal", "%"))
        elif offset or letter == "z":
            tokens.append(("", "z"))
        elif fraction or letter == "f":
            tokens.append(("", fraction or "f"))
        elif letter in _COMPOSITES:
            tokens.extend(_tokens(_COMPOSITES[letter]))
        elif letter in _NUMBERS or letter in _TEXTS:
            tokens.append((flag, letter))
        else:
            raise ValueError(f"`{code.group()}` is not a date code")
    return tokens


def _literal(text: str, before: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Literal text as tokens: a `Z` after a time of day is the offset of UTC."""
    is_time = bool(before) and (before[-1][1] in ("H", "k", "M", "S", "s") or before[-1][1].endswith("f"))
    found = _UTC.match(text) if is_time and before[-1][0] != "literal" else None
    if found is None:
        return [("literal", text)]
    parts = [("literal", found[1]), ("", "Z"), ("literal", text[found.end() :])]
    return [part for part in parts if part[1]]


@lru_cache(maxsize=512)
def _compile(form: str) -> Format:
    writers: list[TextWriter] = []
    pattern: list[str] = []
    fields: list[str] = []
    names, plain = calendar.split(form)
    for flag, code in _tokens(plain):
        if flag == "literal":
            writers.append(lambda t, text=code: text)  # type: ignore[misc]
            pattern.append("".join(r"\s*" if c.isspace() else re.escape(c) for c in code))
            continue
        if code in _NUMBERS:
            writers.append(_number_writer(code, flag))
        elif code in ("z", "Z"):
            writers.append(lambda t, text="Z" if code == "Z" else "": text)  # type: ignore[misc]
        else:
            writers.append(partial(_TEXTS[code], names) if code in _TEXTS else _fraction_writer(code))
        if code in ("t", "n"):
            pattern.append(r"\s*")
            continue
        pattern.append(_group(code, names))
        fields.append(code)
    uses_time = any(code in "HkIlMSspP" or code.endswith("f") for code in fields)
    return Format(tuple(writers), re.compile("".join(pattern), re.ASCII), tuple(fields), uses_time, names)


def complaint(form: str) -> str | None:
    """The mistake in a format for writing; None if it is well formed."""
    found = reading_complaint(form)
    if found is None and "z" in _compile(form).fields:
        return "`%z` is only read: dates and date-times have no zone to write"
    return found


def reading_complaint(form: str) -> str | None:
    """The mistake in a format for reading; None if it is well formed."""
    try:
        _compile(form)
    except ValueError as problem:
        return str(problem)
    return None


def gap(form: str) -> str | None:
    """Why no text of a well formed format can be a date, None where it can."""
    found = _compile(form).fields
    fields = set(found)
    if len(fields) < len(found):
        return "the format names a field twice"
    by_week = {"G", "V"} <= fields and fields & set("aAuw")
    if "s" in fields or by_week:
        return None
    if not fields & set("Yy"):
        return "the format has no year"
    if "j" in fields or (fields & set("de") and fields & set("mbB")):
        return None
    return "the format has no day and month"


def compiled(form: str) -> Format:
    """A compiled format; `Failure` when a computed one is not well formed."""
    try:
        return _compile(form)
    except ValueError:
        raise failure.conversion(calendar.split(form)[1], "date format") from None


def write(value: date, form: str) -> str:
    """A Date or DateTime by a format; the time fields of a Date are 0."""
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    found = compiled(form)
    if "z" in found.fields:
        raise failure.conversion(calendar.split(form)[1], "date format")
    return found.write(moment)


# ---- parsing -------------------------------------------------------------------------------------------------------

_ISO_DATE = re.compile(r"\s*([0-9]{1,4})\s*-\s*([0-9]{1,2})\s*-\s*([0-9]{1,2})\s*", re.ASCII)
_ISO_DATETIME = re.compile(
    r"\s*([0-9]{1,4})\s*-\s*([0-9]{1,2})\s*-\s*([0-9]{1,2})T\s*([0-9]{1,2})\s*:\s*([0-9]{1,2})\s*:\s*([0-9]{1,2})"
    r"(?:\.([0-9]{1,9}))?\s*",
    re.ASCII,
)


def parse_date(text: str, form: str | None) -> date | None:
    """Parse a Date by a format or as ISO 8601; None if the text does not fit, or the format is malformed."""
    if form is None:
        found = _ISO_DATE.fullmatch(text)
        return None if found is None else _date(*map(int, found.groups()))
    zone, plain = zones.split(form)
    fields = _read(text, plain)
    if fields is None:
        return None
    if not _is_moment(fields, zone):
        return _day(fields)
    moment = _moment(fields, zone)
    return None if moment is None else moment.date()


def parse_datetime(text: str, form: str | None) -> datetime | None:
    """Parse a DateTime by a format (which needs hour and minute) or as ISO 8601; None if the text does not fit."""
    if form is None:
        found = _ISO_DATETIME.fullmatch(text)
        if found is None:
            return None
        *numbers, fraction = found.groups()
        return _datetime(*map(int, numbers), microsecond=_microseconds(fraction))
    zone, plain = zones.split(form)
    fields = _read(text, plain)
    return None if fields is None else _moment(fields, zone)


def _is_moment(fields: dict[str, str], zone: str | None) -> bool:
    """True if the fields name a point in time, not a local time somewhere."""
    return "z" in fields or "Z" in fields or ("s" in fields and zone is not None)


def _moment(fields: dict[str, str], zone: str | None) -> datetime | None:
    """The local time that the fields name, in a zone where they name a point of time."""
    found = _clock(fields)
    if found is None or not _is_moment(fields, zone):
        return found
    there = zones.utc(found, fields.get("z", "Z")) if "s" not in fields else found
    return None if there is None else zones.local(there, zone)


def _clock(fields: dict[str, str]) -> datetime | None:
    """The date-time that the fields name, without their offset."""
    if "s" in fields:
        return _from_epoch(fields["s"])
    day, hour = _day(fields), _hour(fields)
    if day is None or hour is None or "M" not in fields:
        return None
    fraction = next((value for code, value in fields.items() if code.endswith("f")), None)
    return _datetime(
        day.year,
        day.month,
        day.day,
        hour,
        int(fields["M"]),
        int(fields.get("S", 0)),
        microsecond=_microseconds(fraction.lstrip(".") if fraction else None),
    )


def _read(text: str, form: str) -> dict[str, str] | None:
    try:
        return _compile(form).read(text)
    except ValueError:
        return None


def _microseconds(fraction: str | None) -> int:
    return int(fraction.ljust(6, "0")[:6]) if fraction else 0


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _datetime(*parts: int, microsecond: int) -> datetime | None:
    try:
        return datetime(*parts, microsecond=microsecond)  # type: ignore[misc,arg-type]
    except ValueError:
        return None


def _from_epoch(seconds: str) -> datetime | None:
    try:
        return _EPOCH + timedelta(seconds=int(seconds))
    except OverflowError:
        return None


def _year(fields: dict[str, str]) -> int | None:
    if "Y" in fields:
        return int(fields["Y"])
    if "y" not in fields:
        return None
    short = int(fields["y"])
    if "C" in fields:
        return int(fields["C"]) * 100 + short
    return short + (2000 if short < 70 else 1900)


def _month(fields: dict[str, str]) -> int | None:
    if "m" in fields:
        return int(fields["m"])
    name = fields.get("b") or fields.get("B")
    return int(name) + 1 if name else None


def _weekday(fields: dict[str, str]) -> int | None:
    """The ISO weekday, 1 to 7, where a field gives it."""
    name = fields.get("a") or fields.get("A")
    if name:
        return int(name) + 1
    if "u" in fields:
        return int(fields["u"])
    return (int(fields["w"]) or 7) if "w" in fields else None


def _day(fields: dict[str, str]) -> date | None:
    """The day that the fields name, in whichever way is complete; None if they are too few or contradict."""
    year, month, weekday = _year(fields), _month(fields), _weekday(fields)
    number = fields.get("d") or fields.get("e")
    day: date | None = None
    if "s" in fields:
        moment = _from_epoch(fields["s"])
        day = moment.date() if moment else None
    elif year is not None and month is not None and number is not None:
        day = _date(year, month, int(number))
    elif year is not None and "j" in fields:
        first = _date(year, 1, 1)
        of_year = int(fields["j"])
        day = first + timedelta(days=of_year - 1) if first and 1 <= of_year <= 366 else None
        day = day if day and day.year == year else None
    elif "G" in fields and "V" in fields and weekday is not None:
        try:
            day = date.fromisocalendar(int(fields["G"]), int(fields["V"]), weekday)
        except ValueError:
            day = None
    return day if day and (weekday is None or day.isoweekday() == weekday) else None


def _hour(fields: dict[str, str]) -> int | None:
    hour = fields.get("H") or fields.get("k")
    if hour is not None:
        return int(hour)
    half = fields.get("I") or fields.get("l")
    noon = fields.get("p") or fields.get("P")
    if half is None or noon is None or not 1 <= int(half) <= 12:
        return None
    return int(half) % 12 + (12 if noon == "1" else 0)
