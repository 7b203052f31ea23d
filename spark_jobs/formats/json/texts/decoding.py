"""JSON texts to values, and JSON values to the declared types of a source (`docs/semantics/json.md`, "JSON values").

Numbers keep their text as long as a column of text may want it: a number with a point or an exponent is read as a
`Number`, which `plain` makes an ordinary value.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from typing import TYPE_CHECKING, Any, AnyStr

from spark_jobs.cxl import values, written_numbers
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import coerce

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from decimal import Decimal


class Number(str):
    """The text of a JSON number that is no ordinary int."""

    __slots__ = ()

    @property
    def is_beyond(self) -> bool:
        """Whether neither 64 bits nor a double keep its value."""
        return not isinstance(self.plain(), (int, float))

    def plain(self) -> int | float | Decimal | str:
        """The number: an int of 64 bits or a double, and where neither keeps its value, a Decimal or its text."""
        return written_numbers.number_of(self)


#: Values nested deeper are refused. A limit of our own: Python's depends on the caller's depth, and a record must not
#: fail in one place and pass in another.
MAX_DEPTH = 128
#: Characters of the smallest int of 64 bits.
_LONGEST_INT = 20
#: The only int whose text differs from its value's; some texts look like it, which costs time only.
_NEGATIVE_ZERO = re.compile(r"-0\s*[,\]}]")
#: Stands between the values of texts that are parsed at once. Random, so that no text can pretend to be several.
_BORDER = secrets.token_hex(16)
_JOINT = f',"{_BORDER}",'
TOO_DEEP = "values are nested too deeply"


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON value")


def _int(text: str) -> int | Number:
    return int(text) if len(text) < _LONGEST_INT and text != "-0" else Number(text)


#: Reads one value; also ints of any length.
decoder = json.JSONDecoder(parse_float=Number, parse_int=_int, parse_constant=_refuse)
_fast_decoder = json.JSONDecoder(parse_float=Number, parse_constant=_refuse)


class Broken(ValueError):
    """A text that is no JSON, and where.

    Args:
        text: the message.
        at: how many bytes of it, as UTF-8, stand before the place.
    """

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.at = at


class Undecodable(Broken):
    """Bytes that are no text."""


class HalfPair(ValueError):
    """An escape of a text stands for half of a surrogate pair.

    Args:
        at: how many characters stand before the escape.
    """

    def __init__(self, at: int) -> None:
        super().__init__("an escape stands for half of a surrogate pair")
        self.at = at


#: An escape, or both of a surrogate pair; the group matches half of a pair.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL)


def no_comma(found: str) -> str:
    """Make the message for a value followed by neither a comma nor the end of its array or object."""
    return f"expected , or ] or }} after a value, found {found or 'the end of the file'}"


def words(problem: ValueError) -> str:
    """Say why a text is no JSON, in the same words for every parser."""
    if isinstance(problem, json.JSONDecodeError):
        return what(problem) + str(problem).removeprefix(problem.msg)
    return str(problem)


def what(problem: json.JSONDecodeError) -> str:
    """Say it without the place."""
    found = problem.doc[problem.pos : problem.pos + 1]
    if problem.msg == "Extra data":
        return f"only white space may follow the value, found {found}"
    return no_comma(found) if problem.msg == "Expecting ',' delimiter" else problem.msg


def parse(text: str) -> Any:
    """The value of a JSON text, with `Number`s.

    Raises:
        ValueError: the text is no JSON, is nested too deeply, or has half of a surrogate pair.
    """
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    check(value, text)
    return value


def check(value: Any, text: str) -> None:
    """Refuse values that a JSON text may have but no column can hold.

    Raises:
        ValueError: the value is nested too deeply, or has half of a surrogate pair.
    """
    if may_be_deep(text, "[", "{") and _depth(value) > MAX_DEPTH:
        raise ValueError(TOO_DEEP)
    if "\\u" in text:
        _refuse_surrogates(value, text)


def may_be_deep(text: AnyStr, opening_array: AnyStr, opening_object: AnyStr) -> bool:
    """Whether a text has more opening brackets than may be nested."""
    return len(text) > 2 * MAX_DEPTH and text.count(opening_array) + text.count(opening_object) > MAX_DEPTH


def _depth(value: Any) -> int:
    """Count the levels of nested arrays and objects in a value."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def parse_objects(lines: Sequence[bytes]) -> list[dict[str, Any]] | None:
    """The objects of several JSON texts at once, or None when one of them needs a closer look."""
    try:
        text = _JOINT.join([line.decode() for line in lines])
        if "\\u" in text or _NEGATIVE_ZERO.search(text):
            return None
        found = _fast_decoder.decode(f"[{text}]")
    except (ValueError, RecursionError):
        return None
    objects = found[::2]
    is_one_each = len(objects) == len(lines) and all(border == _BORDER for border in found[1::2])
    if not is_one_each or not all(item.__class__ is dict for item in objects):
        return None
    return None if any(may_be_deep(line, b"[", b"{") for line in lines) else objects


def _refuse_surrogates(value: Any, text: str) -> None:
    """Refuse texts that no encoding can hold.

    Raises:
        HalfPair: an escape stands for half of a surrogate pair.
    """
    try:
        values.json_text(plain(value)).encode()
    except UnicodeEncodeError:
        halves = (found.start() for found in _ESCAPE.finditer(text) if found[1])
        raise HalfPair(next(halves, 0)) from None


def _rounded(value: Number | int) -> int | float:
    """A number as Numeric has it: an int of 64 bits, or the nearest double; infinite beyond the largest one."""
    found = plain(value)
    return found if isinstance(found, (int, float)) else float(found)


def plain(value: Any) -> Any:
    """Give a value with numbers that keep their digits (`written_numbers.py`), at any depth."""
    match value:
        case Number():
            return value.plain()
        case bool() | str():
            return value
        case int():
            in_range = values.MIN_INT <= value <= values.MAX_INT
            return value if in_range else written_numbers.number_of(str(value))
        case list():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case _:
            return value


def raw_text(value: Any) -> str:
    """Show a value that does not convert: texts and numbers unchanged, others as JSON."""
    match value:
        case str():
            return str(value)
        case None | bool() | list() | dict():
            return json_text(value)
        case _:
            return str(value)


def json_text(value: Any) -> str:
    """A value as compact JSON, in which numbers that no kind of value holds stand as they were written."""
    match value:
        case Number():
            found = value.plain()
            return found if isinstance(found, str) else values.json_text(found)
        case list():
            return "[" + ",".join(map(json_text, value)) + "]"
        case dict():
            return "{" + ",".join(f"{values.json_text(key)}:{json_text(item)}" for key, item in value.items()) + "}"
        case _:
            return values.json_text(value)


def convert(value: Any, kind: Kind, date_formats: tuple[str, ...] = ()) -> Any:
    """A non-null JSON value under a declared kind; texts follow the rules of text cells.

    Raises:
        ValueError: the value does not convert.
    """
    return _RULES[kind](value, date_formats)


def _to_string(value: Any, _: tuple[str, ...]) -> str:
    return raw_text(value)


def _to_int(value: Any, formats: tuple[str, ...]) -> int:
    match value:
        case Number():
            number = value.plain()
            if isinstance(number, str) or int(number) != number:
                raise ValueError(value)
            return _checked(int(number))
        case str():
            return int(coerce.text_to(value, Kind.INT, formats))
        case bool() | int():
            return _checked(int(value))
        case _:
            raise ValueError(raw_text(value))


def _checked(number: int) -> int:
    if not values.MIN_INT <= number <= values.MAX_INT:
        raise ValueError(str(number))
    return number


def _to_float(value: Any, formats: tuple[str, ...]) -> float:
    match value:
        case Number() | bool() | int():
            try:
                number = float(value)
            except OverflowError:
                raise ValueError(raw_text(value)) from None
            if not math.isfinite(number):
                raise ValueError(raw_text(value))
            return number
        case str():
            return float(coerce.text_to(value, Kind.FLOAT, formats))
        case _:
            raise ValueError(raw_text(value))


def _to_decimal(value: Any, formats: tuple[str, ...]) -> Decimal:
    """Numbers by the digits that are written; texts follow the rules of text cells."""
    if isinstance(value, bool) or not isinstance(value, (Number, int, str)):
        raise ValueError(raw_text(value))
    found: Decimal = coerce.text_to(str(value), Kind.DECIMAL, formats)
    return found


def _to_numeric(value: Any, formats: tuple[str, ...]) -> int | float:
    match value:
        case Number() | int():
            number = _rounded(int(value) if isinstance(value, bool) else value)
            if not math.isfinite(number):
                raise ValueError(raw_text(value))
            return number
        case str():
            converted: int | float = coerce.text_to(value, Kind.NUMERIC, formats)
            return converted
        case _:
            raise ValueError(raw_text(value))


def _to_bool(value: Any, formats: tuple[str, ...]) -> bool:
    match value:
        case Number() | int():
            number = plain(value)
            if not isinstance(number, int):
                raise ValueError(raw_text(value))
            return bool(number)
        case str():
            return bool(coerce.text_to(value, Kind.BOOL, formats))
        case _:
            raise ValueError(raw_text(value))


def _from_text(kind: Kind) -> Callable[[Any, tuple[str, ...]], Any]:
    def convert_text(value: Any, formats: tuple[str, ...]) -> Any:
        if value.__class__ is not str:
            raise ValueError(raw_text(value))
        return coerce.text_to(value, kind, formats)

    return convert_text


def _container(cls: type) -> Callable[[Any, tuple[str, ...]], Any]:
    def convert_container(value: Any, _: tuple[str, ...]) -> Any:
        if not isinstance(value, cls):
            raise ValueError(raw_text(value))
        return plain(value)

    return convert_container


def _to_null(value: Any, _: tuple[str, ...]) -> Any:
    raise ValueError(raw_text(value))


_RULES: dict[Kind, Callable[[Any, tuple[str, ...]], Any]] = {
    Kind.NULL: _to_null,
    Kind.BOOL: _to_bool,
    Kind.INT: _to_int,
    Kind.FLOAT: _to_float,
    Kind.DECIMAL: _to_decimal,
    Kind.STRING: _to_string,
    Kind.DATE: _from_text(Kind.DATE),
    Kind.DATETIME: _from_text(Kind.DATETIME),
    Kind.ARRAY: _container(list),
    Kind.MAP: _container(dict),
    Kind.NUMERIC: _to_numeric,
    Kind.ANY: lambda value, _: plain(value),
}
