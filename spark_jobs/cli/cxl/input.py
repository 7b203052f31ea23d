"""Input of `cxl eval`: a record, and the types of its columns."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import decimals, failure, schema, types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WORDS = {
    "string": types.STRING,
    "int": types.INT,
    "integer": types.INT,
    "float": types.FLOAT,
    "bool": types.BOOL,
    "boolean": types.BOOL,
    "date": types.DATE,
    "date_time": types.DATETIME,
    "datetime": types.DATETIME,
    "null": types.NULL,
    "array": types.ARRAY,
    "map": types.MAP,
    "numeric": types.NUMERIC,
    "any": types.ANY,
}
_DECIMAL = re.compile(r"decimal|(?:decimal|numeric)\(\s*([0-9]{1,2})\s*(?:,\s*([0-9]{1,2})\s*)?\)", re.ASCII)
_NULLABLE = re.compile(r"nullable\(\s*(\w+|(?:decimal|numeric)\([0-9,\s]*\))\s*\)")
_INT = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
#: Texts with more digits are no Int, and may be longer than Python converts.
_INT_DIGITS = 19
_FLOAT = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE)


class InputError(Exception):
    """The command line gives something that cannot be read; the message says what."""


def declared(text: str) -> schema.Schema:
    """The columns of a `--schema` argument: an object of names and types, or a list of `{name, type}`."""
    given = _json(text, "schema")
    if isinstance(given, list):
        given = dict(_listed(item) for item in given)
    if not isinstance(given, dict):
        raise InputError("--schema must be a JSON object of column names and types")
    return schema.Schema(tuple(schema.Column(name, _type(name, spelled)) for name, spelled in given.items()))


def _listed(item: Any) -> tuple[str, Any]:
    """The name and the type of a column in a list."""
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise InputError(
            f'--schema as a list has objects like {{"name": "amount", "type": "float"}}, got {_short(item)}'
        )
    return item["name"], item.get("type", "any")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _type(name: Any, spelled: Any) -> types.Type:
    if isinstance(spelled, dict) and set(spelled) == {"nullable"}:
        return _type(name, spelled["nullable"]).or_null()
    if isinstance(spelled, dict):
        if "type" in spelled and isinstance(spelled["type"], str):
            return _type(name, spelled["type"])
        return types.Type(types.Kind.MAP, fields=tuple((str(key), _type(key, of)) for key, of in spelled.items()))
    if isinstance(spelled, list) and len(spelled) == 1:
        return types.array_of(_type(name, spelled[0]))
    if isinstance(spelled, str):
        if found := _NULLABLE.fullmatch(spelled.strip()):
            return _type(name, found[1]).or_null()
        if spelled.strip() in _WORDS:
            return _WORDS[spelled.strip()]
        if (found := _DECIMAL.fullmatch(spelled.strip())) and (decimal := _decimal(found)):
            return decimal
    raise InputError(
        f"unknown type {_short(spelled)} of column '{name}'; the types are {', '.join(_WORDS)}, decimal, "
        "decimal(12,2), nullable(T)"
    )


def _decimal(found: re.Match[str]) -> types.Type | None:
    """The type of Decimals with so many digits; None if no Decimal has as many."""
    if found[1] is None:
        return types.DECIMAL
    precision, scale = int(found[1]), int(found[2] or 0)
    is_held = 1 <= precision <= decimals.MAX_DIGITS and scale <= precision
    return types.decimal_of(precision, scale) if is_held else None


class _Written(float):
    """A JSON number with the digits that are written."""

    text: str


def _written(text: str) -> _Written:
    number = _Written(text)
    number.text = text
    return number


def _json(text: str, what: str, number: Callable[[str], float] = float) -> Any:
    try:
        return json.loads(text, parse_float=number)
    except ValueError as error:
        raise InputError(f"invalid JSON {what}: {error}") from None
    except RecursionError:
        raise InputError(f"invalid JSON {what}: nested too deeply") from None


def record(text: str, row: schema.Schema | None = None) -> dict[str, Any]:
    """The record of a `--record` argument; numbers for Decimal columns are texts, with the digits that are written.

    Args:
        text: a JSON object.
        row: the declared columns, if there are any.
    """
    given = _json(text, "record", _written)
    if not isinstance(given, dict):
        raise InputError("--record must be a JSON object")
    exact = {column.name for column in row or () if column.type.kind is types.Kind.DECIMAL}
    return {name: _digits(value) if name in exact else _number_limits(value) for name, value in given.items()}


def _digits(value: Any) -> Any:
    if isinstance(value, _Written):
        return value.text
    return str(value) if value.__class__ is int else _number_limits(value)


def _number_limits(value: Any) -> Any:
    """JSON numbers beyond 64 bits are Floats."""
    if isinstance(value, _Written):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return float(str(value))  # which is infinity where `float(value)` raises
    if isinstance(value, list):
        return [_number_limits(item) for item in value]
    if isinstance(value, dict):
        return {key: _number_limits(item) for key, item in value.items()}
    return value


def fields(given: Sequence[str], row: schema.Schema | None = None) -> dict[str, Any]:
    """The record of `--field name=value` arguments; the values' types follow from their spelling.

    Values for Decimal columns stay texts, see `record`.
    """
    exact = {column.name for column in row or () if column.type.kind is types.Kind.DECIMAL}
    found = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise InputError(f"--field must be name=value, got '{item}'")
        found[name] = text if name in exact and text != "null" else _inferred(text)
    return found


def _inferred(text: str) -> Any:
    if (found := _INT.fullmatch(text)) and len(found[2]) <= _INT_DIGITS:
        number = int(found[1] + found[2])
        if -(2**63) <= number < 2**63:
            return number
    if _FLOAT.fullmatch(text):
        return float(text)
    return {"true": True, "false": False, "null": None}.get(text, text)


def row_of(values: dict[str, Any]) -> schema.Schema:
    """The columns of a record without schema: every one is `any`."""
    return schema.Schema(tuple(schema.Column(name, types.ANY) for name in values))


def row_by_values(values: dict[str, Any]) -> schema.Schema:
    """A row type from values, with their kinds."""
    from spark_jobs.cxl import values as cxl_values

    kinds = {name: types.Type(cxl_values.kind_of(value)) for name, value in values.items()}
    return schema.Schema(tuple(schema.Column(name, kind) for name, kind in kinds.items()))


def converted(values: dict[str, Any], row: schema.Schema) -> dict[str, Any]:
    """The record as a source would give it: texts of declared types converted, missing columns null.

    Raises `Failure` for a value that does not convert.
    """
    return {column.name: _convert(column, values.get(column.name)) for column in row}


def _convert(column: schema.Column, value: Any) -> Any:
    from spark_jobs.cxl import values as cxl_values
    from spark_jobs.cxl.builtins import conversion

    kind = column.type.kind
    if value is None or kind in (types.Kind.ANY, types.Kind.NULL):
        return value
    match kind:
        case types.Kind.STRING:
            result: Any = value if isinstance(value, str) else cxl_values.text_of(value)
        case types.Kind.INT if isinstance(value, float):
            result = int(value) if value.is_integer() else None
        case types.Kind.INT:
            result = conversion.int_of(value)
        case types.Kind.FLOAT:
            result = conversion.float_of(value)
        case types.Kind.DECIMAL:
            exact = conversion.decimal_of(value)
            result = None if exact is None else decimals.declared(exact, column.type.precision, column.type.scale)
        case types.Kind.BOOL:
            result = value if isinstance(value, bool) else conversion.bool_of(value)
        case types.Kind.DATE:
            result = conversion.date_of(value) if isinstance(value, str) else None
        case types.Kind.DATETIME:
            result = conversion.datetime_of(value) if isinstance(value, str) else None
        case types.Kind.NUMERIC:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            result = (
                value
                if number
                else conversion.int_of(value)
                if conversion.int_of(value) is not None
                else conversion.float_of(value)
            )
        case types.Kind.ARRAY:
            result = value if isinstance(value, list) else None
        case _:
            result = value if isinstance(value, dict) else None
    if result is None:
        shown = cxl_values.text_of(value)
        raise failure.Failure(f"conversion failed: cannot convert '{shown}' to {kind}", value=shown, field=column.name)
    return result
