"""Columns of SQLite: which records fit, and which values a column keeps as they are.

A column of SQLite has an affinity, which changes values to make them fit: `12.50` becomes the float 12.5 in a column of
numbers, and `5` a text in one of texts. Here the declared type of a column decides, and a value that would become
another number or another text is refused. Only columns of numbers accept texts, as the numbers that they spell.
"""

from __future__ import annotations

import decimal
import math
import re
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.database.targets import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.database.targets import TargetColumn

#: Kinds of columns by parts of their declared types, of which the first match counts, as for SQLite's affinities. Kinds
#: for dates have the affinity of numbers, and keep texts that spell none.
_BY_NAME = (
    ("INT", "integer"), ("CHAR", "text"), ("CLOB", "text"), ("TEXT", "text"), ("BLOB", "any"), ("REAL", "real"),
    ("FLOA", "real"), ("DOUB", "real"), ("BOOL", "bool"), ("DATETIME", "moment"), ("TIMESTAMP", "moment"),
    ("DATE", "date"), ("TIME", "time"), ("DEC", "number"), ("NUM", "number"), ("JSON", "json"),
)  # fmt: skip
#: The types of strict tables.
_STRICT = {"INT": "integer", "INTEGER": "integer", "REAL": "real", "TEXT": "text", "BLOB": "bytes", "ANY": "exact"}
_TAKEN_BY = {
    "bool": ("integer", "bool", "number", "any", "exact", "free"),
    "int": ("integer", "bool", "number", "real", "any", "exact", "free"),
    "float": ("real", "number", "any", "exact", "free"),
    "decimal": ("number", "text", "any", "exact"),
    "date": ("date", "moment", "text", "any", "exact", "free"),
    "moment": ("moment", "text", "any", "exact", "free"),
    "text": (
        "text", "any", "exact", "bytes", "integer", "number", "real", "date", "moment", "time", "json", "free", "bool"
    ),
    "list": (),
}  # fmt: skip
_EXACT = 1 << 53
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,9})?\s*", re.IGNORECASE)
#: A text that SQLite may read as a number; only ASCII has blanks and digits for it.
_NUMERIC = r"^[ \t\n\v\f\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\v\f\r]*$"
#: The kinds of columns that hold numbers, and the kinds that convert a text that spells a number.
NUMBERS = ("integer", "number", "real", "bool")
_NUMERIC_AFFINITY = ("date", "moment", "time", "json", "free")


def kind_of_column(declared: str, *, is_strict: bool) -> str:
    """Give the kind of a column from its declared type."""
    upper = declared.upper()
    if is_strict:
        return _STRICT.get(upper, "exact")
    if not upper:
        return "any"
    return next((kind for name, kind in _BY_NAME if name in upper), "free")


def takes(column: TargetColumn, found: pa.DataType) -> bool:
    """Whether records with a column of some type fit."""
    return column.kind in _TAKEN_BY[kind_of(found)]


def refused(column: TargetColumn, array: pa.Array) -> Iterator[tuple[int, str]]:
    """The rows whose value the column does not keep as it is, each with why."""
    if column.needs_value and array.null_count:
        for row in pc.indices_nonzero(array.is_null()).to_pylist():
            yield row, "there must be a value"
    kind = kind_of(array.type)
    if kind == "float":
        for row in _where(pc.is_nan(array)):
            yield row, "SQLite makes a null of NaN"
    if kind == "int" and column.kind == "real":
        for row in _where(pc.or_(pc.less(array, -_EXACT), pc.greater(array, _EXACT))):
            if int(float(array[row].as_py())) != array[row].as_py():
                yield row, f"{array[row].as_py()} has more digits than a column of {column.type} keeps"
    if kind == "text":
        yield from _texts_refused(column, array)
    if kind == "decimal":
        yield from _texts_refused(column, _spelled(array))


def _texts_refused(column: TargetColumn, array: pa.Array) -> Iterator[tuple[int, str]]:
    if column.kind in NUMBERS:
        for row, text in enumerate(array.to_pylist()):
            if text is not None and (why := _number(text, column)):
                yield row, why
    elif column.kind in _NUMERIC_AFFINITY:
        for row in _where(pc.match_substring_regex(array, _NUMERIC)):
            yield row, f"'{array[row].as_py()}' would become a number in a column of {column.type}"


def _number(text: str, column: TargetColumn) -> str | None:
    """Why a text is no number that the column keeps."""
    if not _NUMBER.fullmatch(text):
        return f"'{text}' is no number"
    if column.kind in ("integer", "bool"):
        if not _INTEGER.fullmatch(text):
            return f"'{text}' is no integer"
        return None if _is_int(text) else f"{text} is beyond an integer of 64 bits"
    if column.kind == "number" and _INTEGER.fullmatch(text) and _is_int(text):
        return None
    number = float(text)
    if not math.isfinite(number) or decimal.Decimal(repr(number)) != decimal.Decimal(text.strip()):
        return f"{text} has more digits than a column of {column.type} keeps"
    return None


def _is_int(text: str) -> bool:
    return len(text.strip()) <= 40 and _LEAST <= int(text) <= _MOST


def values(column: TargetColumn, array: pa.Array) -> list[Any]:
    """Values as the driver gives them to SQLite; none is refused (`refused`)."""
    kind = kind_of(array.type)
    if kind == "moment":
        return [None if each is None else each.isoformat(sep=" ") for each in array.to_pylist()]
    if kind == "date":
        return [None if each is None else each.isoformat() for each in array.to_pylist()]
    if kind == "decimal":
        return values(column, _spelled(array))
    found: list[Any] = array.to_pylist()
    if kind == "text" and column.kind in NUMBERS:
        return [None if each is None else _read(each, column) for each in found]
    if kind == "text" and column.kind == "bytes":
        return [None if each is None else each.encode() for each in found]
    return found


def comparable(column: TargetColumn, array: pa.Array, collation: str) -> pa.Array:
    """Texts that are the same only where an index has the column's values as one.

    Args:
        column: the column.
        array: values that it takes.
        collation: how the index compares texts.
    """
    return pa.array([_compared(each, column, collation.upper()) for each in values(column, array)], pa.string())


def _compared(value: Any, column: TargetColumn, collation: str) -> str | None:
    match value:
        case None:
            return None
        case str():
            if collation == "NOCASE":
                return "".join(each.lower() if each.isascii() else each for each in value)
            return value.rstrip(" ") if collation == "RTRIM" else value
        case bytes():
            return value.hex()
        case float() if not value.is_integer():
            return repr(value)
        case _:
            return str(int(float(value) if column.kind == "real" else value))


def _spelled(array: pa.Array) -> pa.Array:
    """Decimals as texts of all their digits, without an exponent."""
    return pa.array([None if each is None else f"{each:f}" for each in array.to_pylist()], pa.string())


def _read(text: str, column: TargetColumn) -> int | float:
    if column.kind != "real" and _INTEGER.fullmatch(text) and _is_int(text):
        return int(text)
    return float(text)  # a NUMERIC column keeps an integer beyond 64 bits as a double, if that has all of its digits


def _where(mask: pa.Array) -> list[int]:
    found: list[int] = pc.indices_nonzero(pc.fill_null(cast("pa.BooleanArray", mask), False)).to_pylist()
    return found
