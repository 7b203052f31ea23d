"""Input of `cxl eval`: a record, and the types of its columns."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import decimals, failure, schema, types, written_numbers

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


class _Number(str):
    """A JSON number, as it is written."""

    __slots__ = ()


def _json(text: str, what: str, number: Callable[[str], Any] | None = None) -> Any:
    try:
        return json.loads(text, parse_float=number, parse_int=number)
    except ValueError as error:
        raise InputError(f"invalid JSON {what}: {error}") from None
    except RecursionError:
        raise InputError(f"invalid JSON {what}: nested too deeply") from None


def record(text: str, row: schema.Schema | None = None) -> dict[str, Any]:
    """The record of a `--record` argument; its numbers keep their digits, as the numbers of a source do.

    Numbers for Decimal and String columns are texts, exactly as they are written.

    Args:
        text: a JSON object.
        row: the declared columns, if there are any.
    """
    given = _json(text, "record", _Number)
    if not isinstance(given, dict):
        raise InputError("--record must be a JSON object")
    exact = _written_columns(row)
    return {
        name: str(value) if name in exact and isinstance(value, _Number) else _plain(value)
        for name, value in given.items()
    }


def _written_columns(row: schema.Schema | None) -> set[str]:
    """The columns whose values depend on how a number is written."""
    return {column.name for column in row or () if column.type.kind in (types.Kind.DECIMAL, types.Kind.STRING)}


def _plain(value: Any) -> Any:
    """A value with numbers of the kinds that keep their digits, at any depth."""
    if isinstance(value, _Number):
        return written_numbers.number_of(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def fields(given: Sequence[str], row: schema.Schema | None = None) -> dict[str, Any]:
    """The record of `--field name=value` arguments; the values' types follow from their spelling.

    Values for Decimal and String columns stay texts, see `record`.
    """
    exact = _written_columns(row)
    found = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise InputError(f"--field must be name=value, got '{item}'")
        found[name] = text if name in exact and text != "null" else _inferred(text)
    return found


def _inferred(text: str) -> Any:
    if found := _INT.fullmatch(text):
        return written_numbers.number_of(found[1].strip("+") + found[2])
    if found := _FLOAT.fullmatch(text):
        return written_numbers.number_of(text.lstrip("+")) if found[2] else float(text)
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
        case types.Kind.INT if isinstance(value, (float, Decimal)):
            result = conversion.int_of(value) if value == conversion.int_of(value) else None
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
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            whole = None if isinstance(value, Decimal) else conversion.int_of(value)
            result = value if is_number else conversion.float_of(value) if whole is None else whole
        case types.Kind.ARRAY:
            result = value if isinstance(value, list) else None
        case _:
            result = value if isinstance(value, dict) else None
    if result is None:
        shown = cxl_values.text_of(value)
        raise failure.Failure(f"conversion failed: cannot convert '{shown}' to {kind}", value=shown, field=column.name)
    return result
