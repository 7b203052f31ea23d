"""Columns of MySQL and MariaDB: which records fit, which values a column keeps, and how statements have them.

These databases change values to make them fit, in part also in strict mode: fractions of seconds are rounded, digits of
decimals too, blanks at the end go, a text may be the number of a choice. So each value is looked at, and one that would
come back as another is refused.
"""

from __future__ import annotations

import ctypes
import decimal
import ipaddress
import json
import math
import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.database.targets import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.formats.database.targets import TargetColumn

#: The bits of integers.
INTS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_FLOATS = ("float", "double")
#: Types of texts whose length is counted in characters, and types whose length is counted in bytes.
_COUNTED, _LONG = ("char", "varchar"), ("tinytext", "text", "mediumtext", "longtext")
TEXTS = frozenset([*_COUNTED, *_LONG])
BYTES = frozenset(["binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"])
_MOMENTS = ("datetime", "timestamp")
_TAKEN_BY = {
    "bool": frozenset([*INTS, "bit"]),
    "int": frozenset([*INTS, *_FLOATS, "decimal", "year", "bit"]),
    "float": frozenset([*_FLOATS, "decimal"]),
    "decimal": frozenset(["decimal"]),
    "date": frozenset(["date", *_MOMENTS]),
    "moment": frozenset(_MOMENTS),
    "text": frozenset(
        [*TEXTS, *BYTES, *INTS, *_FLOATS, *_MOMENTS, "decimal", "year", "date", "time", "enum", "set", "json", "uuid",
         "inet4", "inet6"]
    ),
    "list": frozenset[str](),
}  # fmt: skip
#: The greatest number of `float`.
_FLOAT4 = 3.4028234663852886e38
#: The first and the last moment of `timestamp` for sure; newer servers may know later ones.
_LAST_YEAR = 2106
_FIRST, _LAST = datetime(1970, 1, 1, 0, 0, 1), datetime(2038, 1, 19, 3, 14, 7, 999_999)
#: How Floats are rounded: the largest have some 310 digits before the point.
_MANY_DIGITS = decimal.Context(prec=800, rounding=decimal.ROUND_HALF_UP)
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,9})?\s*", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
)
_TIME = re.compile(r"-?([0-9]{2,3}):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?")
_MOST_HOURS = 838
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: Character sets that have all characters, and some that surely have all but a few.
_ALL, _BASIC, _ASCII = ("utf8mb4", "utf16", "utf32"), ("utf8mb3", "utf8", "ucs2"), "ascii"
_WIDTHS = {"utf16": "utf-16-le", "ucs2": "utf-16-le", "utf32": "utf-32-le"}
_BEYOND_BASIC = "[\U00010000-\U0010ffff]"
#: The range of JSON ints that a server does not convert to doubles.
_JSON_INTS = (-(1 << 63), (1 << 64) - 1)


class Unkept(ValueError):
    """A value that the column does not take, or would change; the message says why."""


def takes(column: TargetColumn, found: pa.DataType) -> bool:
    """Whether records with a column of some type fit."""
    return column.kind in _TAKEN_BY[kind_of(found)]


def refused(column: TargetColumn, array: pa.Array) -> Iterator[tuple[int, str]]:
    """The rows whose value the column does not take as it is, each with why."""
    if column.needs_value and array.null_count:
        for row in pc.indices_nonzero(array.is_null()).to_pylist():
            yield row, "there must be a value"
    kind = kind_of(array.type)
    if kind == "text" and column.kind in TEXTS:
        yield from _texts_refused(column, cast("pa.StringArray", array))
        return
    if kind in ("bool", "date") and column.kind != "timestamp":
        return
    if kind == "int" and column.kind in INTS:
        least, most = _bounds(column)
        for row in _where(pc.or_(pc.less(array, max(least, _LEAST)), pc.greater(array, min(most, _MOST)))):
            yield row, f"{array[row].as_py()} is beyond {column.type}"
        return
    spell = _spelling(kind, column)
    for row, value in enumerate(array.to_pylist()):
        if value is not None:
            try:
                spell(value, column)
            except Unkept as problem:
                yield row, str(problem)


def _texts_refused(column: TargetColumn, array: pa.StringArray) -> Iterator[tuple[int, str]]:
    charset = column.charset[0] if column.charset else "utf8mb4"
    lengths: pa.Array
    if column.kind in _COUNTED:
        lengths, unit = pc.utf8_length(array), "characters"
    else:
        codec = _WIDTHS.get(charset)
        is_narrow = codec is None and charset not in (*_ALL, *_BASIC)
        lengths, unit = (pc.utf8_length(array) if is_narrow else pc.binary_length(array)), "bytes"
        if codec is not None:
            sizes = (None if each is None else len(each.encode(codec)) for each in array.to_pylist())
            lengths = pa.array(sizes, pa.int32())
    for row in _where(pc.greater(lengths, min(column.length or (1 << 31) - 1, (1 << 31) - 1))):
        yield row, f"the text has {lengths[row].as_py()} {unit}, and {column.length} is the most"
    if column.kind == "char":
        for row in _where(pc.match_substring_regex(array, " $")):
            yield row, f"{column.type} does not keep the blanks at the end of a text: take them off, or use a varchar"
    foreign = {_ASCII: r"[^\x00-\x7f]", **dict.fromkeys(_BASIC, _BEYOND_BASIC)}.get(charset)
    if foreign:
        for row in _where(pc.match_substring_regex(array, foreign)):
            yield row, f"the column has the character set {charset}, which does not have all characters of the text"


def _where(mask: pa.Array) -> list[int]:
    found: list[int] = pc.indices_nonzero(pc.fill_null(cast("pa.BooleanArray", mask), False)).to_pylist()
    return found


def is_unsure(column: TargetColumn, array: pa.Array) -> bool:
    """Whether only the database can tell if it accepts the values that pass the checks here."""
    kind = kind_of(array.type)
    if column.kind == "timestamp":
        spell = _spelling(kind, column)
        return any(value is not None and spell(value, column) > str(_LAST) for value in array.to_pylist())
    if kind != "text" or column.kind not in (*TEXTS, "enum", "set") or column.charset is None:
        return False
    if column.charset[0] in (*_ALL, *_BASIC, _ASCII):
        return False
    return bool(pc.any(pc.match_substring_regex(array, r"[^\x00-\x7f]")).as_py())


def literals(column: TargetColumn, array: pa.Array) -> list[str]:
    """Values as statements have them; none is refused (`refused`)."""
    kind = kind_of(array.type)
    found: list[str]
    if kind in ("bool", "int") and column.kind not in _FLOATS:
        found = pc.fill_null(pc.cast(pc.cast(array, pa.int64()), pa.string()), "NULL").to_pylist()
        return found
    if kind == "text" and column.kind in TEXTS:
        return ["NULL" if each is None else escaped(each) for each in array.to_pylist()]
    if kind == "text" and column.kind in BYTES:
        return ["NULL" if each is None else f"x'{each.encode().hex()}'" for each in array.to_pylist()]
    spell = _spelling(kind, column)
    return ["NULL" if each is None else escaped(spell(each, column)) for each in array.to_pylist()]


def comparable(column: TargetColumn, array: pa.Array) -> pa.Array | None:
    """Texts that are the same only where the column's values are; None where its collation says which texts are.

    Args:
        column: the column.
        array: values that it takes.
    """
    kind = kind_of(array.type)
    if column.charset is not None and not column.charset[1].endswith("_bin"):
        return None
    found = [None if value is None else _compared(value, kind, column) for value in array.to_pylist()]
    return pa.array(found, pa.string())


def pads(column: TargetColumn) -> bool:
    """Whether blanks at the end of its texts are not compared."""
    return column.charset is not None and not any(part in column.charset[1] for part in ("_nopad_", "_0900_"))


def _compared(value: Any, kind: str, column: TargetColumn) -> str:
    if column.kind in TEXTS:
        return str(value).rstrip(" ") if pads(column) else str(value)
    if column.kind in (*INTS, "bit", "year"):
        return str(int(value))
    if column.kind in _FLOATS:
        number = ctypes.c_float(float(value)).value if column.kind == "float" else float(value)
        return repr(number + 0.0)
    if column.kind in BYTES:
        return str(value)
    text = _spelling(kind, column)(value, column)
    match column.kind:
        case "decimal" | "time":
            return text.rstrip("0").rstrip(".") if "." in text else text
        case "set":
            return ",".join(sorted(text.split(",")))
        case "uuid" | "inet6":
            return text.lower()
        case _:
            return text


_ESCAPES = str.maketrans({"\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z", "'": "\\'", '"': '\\"', "\\": "\\\\"})


def escaped(text: str) -> str:
    """A text as statements have it, under the `sql_mode` of this package (`loading.py`)."""
    return f"'{text.translate(_ESCAPES)}'"


def _spelling(kind: str, column: TargetColumn) -> Callable[[Any, TargetColumn], str]:
    """Give the function that spells values of a kind for a column; it raises Unkept for values that would change."""
    if kind == "text":
        return _OF_TEXTS[column.kind]
    if kind in ("date", "moment"):
        return _date if column.kind == "date" else _moment
    if column.kind in _FLOATS:
        return _float
    if column.kind == "decimal":
        return _rounded if kind == "float" else _decimal
    return _year if column.kind == "year" else _bits if column.kind == "bit" else _integer


def _bounds(column: TargetColumn) -> tuple[int, int]:
    bits = INTS[column.kind]
    return (0, (1 << bits) - 1) if column.is_unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _integer(value: Any, column: TargetColumn) -> str:
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise Unkept(f"'{value}' is no integer")
    try:
        number = int(value)
    except ValueError:  # more digits than Python reads
        raise Unkept(f"the text has {len(value)} digits, which is beyond {column.type}") from None
    least, most = _bounds(column)
    if not least <= number <= most:
        raise Unkept(f"{number} is beyond {column.type}")
    return str(number)


def _bits(value: int, column: TargetColumn) -> str:
    if not 0 <= value < 1 << (column.length or 1):
        raise Unkept(f"{value} is beyond {column.type}")
    return str(value)


def _year(value: Any, column: TargetColumn) -> str:
    text = str(value)
    if not (re.fullmatch(r"[0-9]{4}", text) or value == 0) or not (int(text) == 0 or 1901 <= int(text) <= 2155):
        raise Unkept(f"'{value}' is no year from 1901 to 2155 with four digits")
    return text


def _float(value: Any, column: TargetColumn) -> str:
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise Unkept(f"'{value}' is no number")
    number = float(value)
    most = _FLOAT4 if column.kind == "float" else math.inf
    if not math.isfinite(number) or abs(number) > most:
        raise Unkept(f"{value} is beyond {column.type}: there are only finite numbers")
    if column.is_unsigned and number < 0:
        raise Unkept(f"{value} is beyond {column.type}")
    if column.precision is not None and column.scale is not None:
        # The server rounds to the digits of the column, and refuses a value that then has one digit more.
        rounded = decimal.Decimal(repr(number)).quantize(decimal.Decimal(1).scaleb(-column.scale), context=_MANY_DIGITS)
        if rounded.adjusted() >= column.precision - column.scale and rounded:
            raise Unkept(f"{value} is beyond {column.type}")
    return repr(number)


def _rounded(value: float, column: TargetColumn) -> str:
    """A Float, which has no digits of its own: the column's nearest number."""
    if not math.isfinite(value):
        raise Unkept(f"{value} is beyond {column.type}: there are only finite numbers")
    found = decimal.Decimal(repr(value)).quantize(decimal.Decimal(1).scaleb(-(column.scale or 0)), context=_MANY_DIGITS)
    return _decimal(str(found), column)


def _decimal(value: Any, column: TargetColumn) -> str:
    text = str(value)
    if not _NUMBER.fullmatch(text):
        raise Unkept(f"'{value}' is no number")
    number = decimal.Decimal(text.strip())
    if not number:
        return "0"
    precision, scale = column.precision or 10, column.scale or 0
    if number.adjusted() >= precision - scale:
        raise Unkept(f"{value} has more than {precision - scale} digits before the point")
    sign, digits, exponent = number.as_tuple()
    needed = -int(exponent) - (len(digits) - len("".join(map(str, digits)).rstrip("0")))
    if needed > scale:
        raise Unkept(f"{value} has more than {scale} digits after the point, and {column.type} would round it")
    if sign and column.is_unsigned:
        raise Unkept(f"{value} is beyond {column.type}")
    return f"{number:f}"


def _date(value: Any, column: TargetColumn) -> str:
    if isinstance(value, date):
        return value.isoformat()
    try:
        if not _DATE.fullmatch(value):
            raise ValueError
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise Unkept(f"'{value}' is no date such as 2024-02-29") from None


def _moment(value: Any, column: TargetColumn) -> str:
    if isinstance(value, str):
        found = _parsed(value)
    elif isinstance(value, datetime):
        found = value
    else:
        found = datetime(value.year, value.month, value.day)
    digits = column.precision or 0
    if found.microsecond % 10 ** (6 - digits):
        kept = "whole seconds" if not digits else f"{digits} digits of a second"
        raise Unkept(f"{column.type} keeps {kept}, and {value} has more: {column.kind}(6) keeps all of them")
    if column.kind == "timestamp" and (found < _FIRST or found.year > _LAST_YEAR):
        raise Unkept(f"{value} is beyond timestamp: datetime keeps it")
    return found.isoformat(sep=" ")


def _parsed(text: str) -> datetime:
    """A text as a moment in UTC."""
    try:
        if not _MOMENT.fullmatch(text):
            raise ValueError
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise Unkept(f"'{text}' is no moment such as 2024-02-29 12:30:00 or 2024-02-29T12:30:00Z") from None


def _time(text: str, column: TargetColumn) -> str:
    found = _TIME.fullmatch(text)
    if found is None or int(found[1]) > _MOST_HOURS:
        raise Unkept(f"'{text}' is no time from -838:59:59 to 838:59:59 such as 12:30:00")
    fraction = (found[2] or "").rstrip("0").removeprefix(".")
    if len(fraction) > (column.precision or 0):
        raise Unkept(f"{column.type} keeps {column.precision or 0} digits of a second, and {text} has more")
    if int(found[1]) == _MOST_HOURS and text.lstrip("-")[4:9] == "59:59" and fraction:
        raise Unkept(f"'{text}' is beyond {column.type}")
    return text


def _choice(text: str, column: TargetColumn) -> str:
    if text not in column.choices:
        raise Unkept(f"'{text}' is none of {', '.join(map(repr, column.choices))}")
    return text


def _choices(text: str, column: TargetColumn) -> str:
    given = text.split(",") if text else []
    for each in given:
        _choice(each, column)
    if len(set(given)) < len(given):
        raise Unkept(f"'{text}' names a member twice")
    return text


def _json(text: str, column: TargetColumn) -> str:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        # MariaDB keeps the text; MySQL converts numbers other than 64-bit integers to doubles.
        keeps_text = column.type != "json"
        json.loads(text, parse_constant=refuse, parse_int=str if keeps_text else _whole, parse_float=
                   str if keeps_text else _fraction)  # fmt: skip
    except Unkept:
        raise
    except (ValueError, RecursionError):
        raise Unkept("the text is no JSON") from None
    return text


def _whole(digits: str) -> str:
    if len(digits) > 20 or not _JSON_INTS[0] <= int(digits) <= _JSON_INTS[1]:
        raise Unkept(f"json does not keep all digits of {digits}")
    return digits


def _fraction(digits: str) -> str:
    number = float(digits)
    if not math.isfinite(number) or decimal.Decimal(repr(number)) != decimal.Decimal(digits):
        raise Unkept(f"json does not keep all digits of {digits}")
    return digits


def _uuid(text: str, column: TargetColumn) -> str:
    if not _UUID.fullmatch(text):
        raise Unkept(f"'{text}' is no UUID")
    return text


def _address(text: str, column: TargetColumn) -> str:
    try:
        if column.kind == "inet4":
            return str(ipaddress.IPv4Address(text))
        if "%" in text:
            raise ValueError
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise Unkept(f"'{text}' is no address of {column.kind}") from None


def _bytes(text: str, column: TargetColumn) -> str:
    count = len(text.encode())
    if column.length is not None and count > column.length:
        raise Unkept(f"the text has {count} bytes, and {column.length} is the most")
    if column.kind == "binary" and count != column.length:
        raise Unkept(f"the text has {count} bytes, and {column.type} fills it up to {column.length}: use a varbinary")
    return text


_OF_TEXTS: dict[str, Callable[[Any, TargetColumn], str]] = {
    **dict.fromkeys(INTS, _integer),
    **dict.fromkeys(_FLOATS, _float),
    **dict.fromkeys(BYTES, _bytes),
    **dict.fromkeys(_MOMENTS, _moment),
    "decimal": _decimal,
    "year": _year,
    "date": _date,
    "time": _time,
    "enum": _choice,
    "set": _choices,
    "json": _json,
    "uuid": _uuid,
    "inet4": _address,
    "inet6": _address,
}
