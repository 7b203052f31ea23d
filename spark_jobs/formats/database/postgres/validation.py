"""Checks that find the values PostgreSQL would refuse, as far as possible before rows are inserted.

The types of columns give lengths, ranges and forms of texts. The rest only the database knows, so the task asks it:
whether it reads a text of an unusual form, and whether its constraints accept a record (`queries.py`).
"""

from __future__ import annotations

import decimal
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.database.options import WriteMode
from spark_jobs.formats.database.postgres import columns
from spark_jobs.formats.database.postgres.queries import Queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.database.options import DatabaseWrite
    from spark_jobs.formats.database.targets import Constraint, Target, TargetColumn

_UUID = re.compile(r"(\{)?[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}(?(1)\})")
_BITS = re.compile(r"[bB]?([01]*)|[xX]([0-9a-fA-F]*)")
#: The bytes of the database's own short texts, and a byte of one as an escape.
_NAME_BYTES, _ESCAPED_BYTE = 63, re.compile(r"\\[0-3][0-7]{2}")
#: The greatest finite number of 4 bytes, and the bound up to which numbers round to it.
_FLOAT4 = 3.4028235677973364e38
#: The digits that a numeric has before the point, and after it.
_MOST_WHOLE, _MOST_PLACES = 131_072, 16_383
_BLANKS = r"[ \t\n\r\v\f]*"
_INTEGER = re.compile(rf"{_BLANKS}[+-]?[0-9]+{_BLANKS}")
_NUMBER = re.compile(
    rf"{_BLANKS}([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{{1,9}})?|nan|[+-]?inf(inity)?){_BLANKS}", re.IGNORECASE
)
#: The character that no text of the database can have.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
#: The forms of texts that are certainly values of a type. The database checks all other texts.
_DATE = (
    r"[0-9]{3}[1-9]-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_MOMENT = rf"{_DATE}(?:[ T]{_TIME}(?:Z|[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?)?)?"
_FLOAT = r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9])?"
_PLAIN = {
    "bool": r"(?i:t|true|f|false|y|yes|n|no|on|off|1|0)",
    "date": _DATE,
    "time": _TIME,
    "timestamp": _MOMENT,
    "timestamptz": _MOMENT,
    "float4": _FLOAT,
    "float8": _FLOAT,
}
#: The types whose texts are looked at here, to the last case.
_SURE = frozenset(
    ["text", "varchar", "bpchar", "bytea", "int2", "int4", "int8", "numeric", "json", "jsonb", "uuid", "bit", "varbit"]
)
_BIT_KINDS = ("bit", "varbit")
_INTS = {"int2": 1 << 15, "int4": 1 << 31, "int8": 1 << 63}


class Checks:
    """See `write.py:Checks`."""

    def __init__(self, target: Target, options: DatabaseWrite) -> None:
        self._queries: Queries | None = None
        if target.place is not None:
            is_replaced = options.mode is WriteMode.REPLACE
            self._queries = Queries(target.place, target, options.key, replaces=is_replaced)

    def column(self, column: TargetColumn, array: pa.Array) -> Iterator[tuple[int, str]]:
        """See `write.py:Checks`."""
        yield from _refused(column, array)
        yield from self._misread(column, array)

    def comparable(self, column: TargetColumn, array: pa.Array, collation: str) -> pa.StringArray:
        """See `write.py:Checks`: it converts texts as the database does."""
        found = columns.comparable(column, array)
        if found is None:
            texts = array if pa.types.is_string(array.type) else array.cast(pa.string())
            found = texts if self._queries is None else self._queries.converted(column, array.type, texts)
        return cast("pa.StringArray", found)

    def computed(self, constraint: Constraint, found: pa.RecordBatch) -> pa.StringArray:
        """See `write.py:Checks`."""
        if self._queries is None:
            return pa.nulls(found.num_rows, pa.string())
        return self._queries.computed(constraint, found)

    def rows(self, found: pa.RecordBatch) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """See `write.py:Checks`."""
        if self._queries is not None:
            yield from self._queries.rows(found)

    def _misread(self, column: TargetColumn, array: pa.Array) -> Iterator[tuple[int, str]]:
        """The rows whose text the database does not read, by its own word where the form does not tell."""
        if self._queries is None:
            return
        if pa.types.is_list(array.type):
            whose = pc.list_parent_indices(array).to_pylist()
            for at, detail in self._misread(_of_elements(column), pc.list_flatten(array)):
                yield whose[at], detail
        elif pa.types.is_string(array.type) and column.kind not in _SURE:
            sure = pc.match_substring(array, "\0")
            if pattern := _PLAIN.get(column.kind):
                sure = pc.or_(sure, pc.match_substring_regex(array, f"^(?:{pattern})$"))
            unsure = pc.indices_nonzero(pc.invert(pc.fill_null(sure, True)))
            if len(unsure):
                refused = self._queries.texts(column.type, pc.unique(array.take(unsure)))
                for row in unsure.to_pylist() if refused else ():
                    if why := refused.get(array[row].as_py()):
                        yield row, why


def _of_elements(column: TargetColumn) -> TargetColumn:
    """Give the target column for the elements of an array column."""
    kind, type = column.kind.removeprefix("_"), column.type.removesuffix("[]")
    return replace(column, kind=kind, type=type, needs_value=False)


def _refused(column: TargetColumn, array: pa.Array) -> Iterator[tuple[int, str]]:
    """The rows whose value the column does not take, each with why."""
    if column.needs_value and array.null_count:
        for row in pc.indices_nonzero(array.is_null()).to_pylist():
            yield row, "there must be a value"
    if pa.types.is_string(array.type):
        yield from _texts_refused(column, cast("pa.StringArray", array))
    elif pa.types.is_list(array.type):
        whose = pc.list_parent_indices(array).to_pylist()
        for at, detail in _refused(_of_elements(column), pc.list_flatten(array)):
            yield whose[at], detail
    elif pa.types.is_decimal(array.type):
        for row, value in enumerate(array.to_pylist()):
            if value is not None and (why := _digits(value, column)):
                yield row, why
    elif column.kind in _INTS and column.kind != "int8":
        most = _INTS[column.kind]
        yield from _told(array, pc.or_(pc.less(array, -most), pc.greater_equal(array, most)), column.kind)
    elif column.kind == "float4":
        large = pc.greater(pc.abs(array), _FLOAT4)
        yield from _told(array, pc.and_(large, pc.is_finite(array)), column.kind)
    elif column.kind == "numeric" and column.precision is not None:
        for row, value in enumerate(array.to_pylist()):
            if value is not None and (why := _number(str(value), column)):
                yield row, why


def _told(array: pa.Array, outside: pa.BooleanArray, kind: str) -> Iterator[tuple[int, str]]:
    for row in pc.indices_nonzero(pc.fill_null(outside, False)).to_pylist():
        yield row, f"{array[row].as_py()} is beyond {kind}"


def _texts_refused(column: TargetColumn, array: pa.StringArray) -> Iterator[tuple[int, str]]:
    zeros = pc.fill_null(pc.match_substring(array, "\0"), False)
    for row in pc.indices_nonzero(zeros).to_pylist():
        yield row, "a text cannot have the character U+0000"
    if column.length is not None and column.kind not in _BIT_KINDS and not column.kind.startswith("_"):
        # Trailing blanks beyond the length are cut, as the database does.
        lengths = pc.utf8_length(pc.utf8_rtrim(array, " "))
        for row in pc.indices_nonzero(pc.fill_null(pc.greater(lengths, column.length), False)).to_pylist():
            yield row, f"the text has {lengths[row].as_py()} characters, and {column.length} is the most"
    check = _FORMS.get(column.kind)
    if check is not None:
        for row, text in enumerate(array.to_pylist()):
            if text is not None and (why := check(text, column)):
                yield row, why


def _number(text: str, column: TargetColumn) -> str | None:
    if not _NUMBER.fullmatch(text):
        return f"'{text}' is no number"
    if column.kind in _INTS:
        if not _INTEGER.fullmatch(text):
            return f"'{text}' is no integer"
        most = _INTS[column.kind]
        return None if -most <= decimal.Decimal(text.strip()) < most else f"{text} is beyond {column.kind}"
    found = decimal.Decimal(text.strip())
    if found.is_nan():
        return None
    if not found.is_finite():
        return None if column.precision is None else f"{text} is beyond numeric({column.precision},{column.scale})"
    if found and (found.adjusted() >= _MOST_WHOLE or -int(found.as_tuple().exponent) > _MOST_PLACES):
        return f"{text} has more digits than numeric"
    if column.precision is None:
        return None
    with decimal.localcontext(decimal.Context(prec=2 * _MOST_WHOLE, rounding=decimal.ROUND_HALF_UP)):
        rounded = found.quantize(decimal.Decimal(1).scaleb(-(column.scale or 0))) if found else found
    digits = column.precision - (column.scale or 0)
    return (
        None
        if abs(rounded) < decimal.Decimal(10) ** digits
        else f"{text} has more than {digits} digits before the point"
    )


def _digits(value: decimal.Decimal, column: TargetColumn) -> str | None:
    """The reason why a Decimal, which keeps all its digits, does not fit a column; None where it does."""
    if column.scale is not None and value:
        digits = value.as_tuple()
        zeros = len(digits.digits) - len("".join(map(str, digits.digits)).rstrip("0"))
        if -int(digits.exponent) - zeros > column.scale:
            return f"{value} has more than {column.scale} digits after the point, and {column.type} would round it"
    return _number(str(value), column)


def _json(text: str, column: TargetColumn) -> str | None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    is_binary = column.kind == "jsonb"
    try:
        # Numbers are compared as texts, because numbers in JSON have no bounds.
        json.loads(text, parse_constant=refuse, **_NUMBERS_OF[column.kind])
    except (ValueError, RecursionError):
        return "the text is no JSON"
    except OverflowError:
        return "the text has a number with more digits than numeric"
    if is_binary and "\\u" in text and any(map(_NO_TEXT.search, _texts_in(json.loads(text, parse_int=str)))):
        return "a text in jsonb cannot have the character U+0000, or half of a pair of surrogates"
    return None


def _checked(number: str) -> str:
    try:
        found = decimal.Decimal(number)
    except decimal.InvalidOperation:  # an exponent that nothing holds
        raise OverflowError from None
    if found and (found.adjusted() >= _MOST_WHOLE or -int(found.as_tuple().exponent) > _MOST_PLACES):
        raise OverflowError
    return number


def _checked_whole(number: str) -> str:
    if len(number) > _MOST_WHOLE:
        return _checked(number)
    return number


_NUMBERS_OF: dict[str, dict[str, Any]] = {
    "json": {"parse_int": str, "parse_float": str},
    "jsonb": {"parse_int": _checked_whole, "parse_float": _checked},
}


def _texts_in(value: Any) -> Iterator[str]:
    """All texts of a value of JSON, keys too."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each


def _uuid(text: str, column: TargetColumn) -> str | None:
    return None if _UUID.fullmatch(text) else f"'{text}' is no UUID"


def _bits(text: str, column: TargetColumn) -> str | None:
    found = _BITS.fullmatch(text)
    if found is None:
        return f"'{text}' is no string of bits"
    count = len(found[1]) if found[1] is not None else 4 * len(found[2])
    if column.length is None or count == column.length or (column.kind == "varbit" and count < column.length):
        return None
    return f"the text has {count} bits, and {column.type} takes {column.length}"


def _name(text: str, column: TargetColumn) -> str | None:
    count = len(text.encode())
    return None if count <= _NAME_BYTES else f"the text has {count} bytes, and {_NAME_BYTES} is the most"


def _byte(text: str, column: TargetColumn) -> str | None:
    count = len(text.encode())
    return None if count <= 1 or _ESCAPED_BYTE.fullmatch(text) else f"the text has {count} bytes, and 1 is the most"


_FORMS = {
    "int2": _number,
    "int4": _number,
    "int8": _number,
    "numeric": _number,
    "json": _json,
    "jsonb": _json,
    "uuid": _uuid,
    "bit": _bits,
    "varbit": _bits,
    "name": _name,
    "char": _byte,
}
