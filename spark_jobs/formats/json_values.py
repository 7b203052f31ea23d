"""JSON texts to values, and JSON values to the declared types of a source (decision 47).

Numbers keep their text as long as a column of texts may want it: a float is read as a `Number`, and so is an int that
64 bits may not hold. `plain` makes ordinary values of them.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import values
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import coerce

if TYPE_CHECKING:
    from collections.abc import Callable

#: Ints with fewer characters fit into 64 bits for certain.
_SAFE_INT_LENGTH = 19


class Number(float):
    """A JSON number with its text."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> Number:
        """The number of a JSON literal."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str

    def plain(self) -> int | float:
        """An int where the literal is one that fits into 64 bits, else a float."""
        if self.text.lstrip("-").isdecimal() and len(self.text) <= _SAFE_INT_LENGTH + 1:
            number = int(self.text)
            if values.MIN_INT <= number <= values.MAX_INT:
                return number
        return float(self)


def _int(text: str) -> int | Number:
    return int(text) if len(text) < _SAFE_INT_LENGTH and text != "-0" else Number(text)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no JSON value")


decoder = json.JSONDecoder(parse_float=Number, parse_int=_int, parse_constant=_refuse)


def parse(text: str) -> Any:
    """The value of a JSON text, with `Number`s.

    Raises:
        ValueError: the text is no JSON, is nested too deeply, or has half of a surrogate pair.
    """
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
    if "\\u" in text:
        refuse_surrogates(value)
    return value


def refuse_surrogates(value: Any) -> None:
    """Refuse texts that no encoding can hold.

    Raises:
        ValueError: an escape stands for half of a surrogate pair.
    """
    try:
        values.json_text(plain(value)).encode()
    except UnicodeEncodeError:
        raise ValueError("an escape stands for half of a surrogate pair") from None


def plain(value: Any) -> Any:
    """A value with ordinary numbers, however deep they are."""
    match value:
        case Number():
            return value.plain()
        case list():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case _:
            return value


def raw_text(value: Any) -> str:
    """How a value is shown that does not convert: texts as they are, others as JSON."""
    if isinstance(value, Number):
        return value.text
    return value if isinstance(value, str) else values.json_text(plain(value))


def convert(value: Any, kind: Kind, date_formats: tuple[str, ...] = ()) -> Any:
    """A non-null JSON value under a declared kind; texts follow the rules of text cells.

    Raises:
        ValueError: the value does not convert.
    """
    return _RULES[kind](value, date_formats)


def _to_string(value: Any, _: tuple[str, ...]) -> str:
    return value if isinstance(value, str) else raw_text(value)


def _to_int(value: Any, formats: tuple[str, ...]) -> int:
    match value:
        case str():
            return int(coerce.text_to(value, Kind.INT, formats))
        case bool() | int():
            return int(value)
        case Number():
            number = value.plain()
            if isinstance(number, int):
                return number
            # A literal of digits alone that is no int by now is too large, and its float must not pass for it.
            is_whole = number.is_integer() and not value.text.lstrip("-").isdecimal()
            if not is_whole or not values.MIN_INT <= int(number) <= values.MAX_INT:
                raise ValueError(value.text)
            return int(number)
        case _:
            raise ValueError(raw_text(value))


def _to_float(value: Any, formats: tuple[str, ...]) -> float:
    match value:
        case str():
            return float(coerce.text_to(value, Kind.FLOAT, formats))
        case bool() | int() | Number():
            if not math.isfinite(value):
                raise ValueError(raw_text(value))
            return float(value)
        case _:
            raise ValueError(raw_text(value))


def _to_numeric(value: Any, formats: tuple[str, ...]) -> int | float:
    match value:
        case str():
            number: int | float = coerce.text_to(value, Kind.NUMERIC, formats)
            return number
        case Number():
            return value.plain()
        case bool() | int():
            return int(value)
        case _:
            raise ValueError(raw_text(value))


def _to_bool(value: Any, formats: tuple[str, ...]) -> bool:
    match value:
        case str():
            return bool(coerce.text_to(value, Kind.BOOL, formats))
        case bool() | int():
            return bool(value)
        case _:
            raise ValueError(raw_text(value))


def _from_text(kind: Kind) -> Callable[[Any, tuple[str, ...]], Any]:
    def convert_text(value: Any, formats: tuple[str, ...]) -> Any:
        if not isinstance(value, str):
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
    Kind.STRING: _to_string,
    Kind.DATE: _from_text(Kind.DATE),
    Kind.DATETIME: _from_text(Kind.DATETIME),
    Kind.ARRAY: _container(list),
    Kind.MAP: _container(dict),
    Kind.NUMERIC: _to_numeric,
    Kind.ANY: lambda value, _: plain(value),
}
