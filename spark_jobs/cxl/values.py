"""The values of CXL: their representations in Python and in Arrow, their texts, and their equality.

A value is None, bool, int (64 bits), float, `decimal.Decimal` (see `decimals.py`), str, `datetime.date`,
`datetime.datetime` (microseconds, no zone), list or dict with string keys. This module runs on executors; pyarrow is
imported on first use, so that planning starts without it.
"""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Context, Decimal
from json.encoder import encode_basestring as _quote
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    import pyarrow as pa

    from spark_jobs.cxl import types

MIN_INT = -(2**63)
MAX_INT = 2**63 - 1
#: Exact for all digits that a Decimal has.
_DIGITS = Context(prec=38)

_KINDS: dict[type, Kind] = {
    type(None): Kind.NULL,
    bool: Kind.BOOL,
    int: Kind.INT,
    float: Kind.FLOAT,
    Decimal: Kind.DECIMAL,
    str: Kind.STRING,
    date: Kind.DATE,
    datetime: Kind.DATETIME,
    list: Kind.ARRAY,
    dict: Kind.MAP,
}


_NUMBERS = (int, float, Decimal)


def kind_of(value: Any) -> Kind:
    """The kind of a value, by its Python class."""
    return _KINDS[value.__class__]


# ---- texts ---------------------------------------------------------------------------------------------------------


def float_text(number: float) -> str:
    """The shortest digits that read back as the same number, without exponent and trailing `.0`."""
    text = repr(number)
    if text.endswith(".0"):
        return text[:-2]
    if "e" in text:
        return format(Decimal(text), "f")
    return "NaN" if text == "nan" else text


def json_float_text(number: float) -> str:
    """A float as JSON writes it: `21.0`, `0.00001`, `1e+16`; NaN and infinities are `null`."""
    text = repr(number)
    if "e-" in text:
        digits, exponent = text.split("e-")
        return format(Decimal(text), "f") if exponent == "05" else f"{digits}e-{int(exponent)}"
    return text if math.isfinite(number) else "null"


def decimal_text(number: Decimal) -> str:
    """All digits of a Decimal, including trailing zeros of its scale: `12.50`."""
    return format(number, "f")


def datetime_text(moment: datetime) -> str:
    """`YYYY-MM-DDTHH:MM:SS`, with 3 or 6 digits of fraction when it is not zero."""
    text = moment.isoformat()
    return text[:-3] if moment.microsecond and text.endswith("000") else text


def text_of(value: Any) -> str:
    """The text of a value, the same in all text formats: null is empty, containers are compact JSON.

    `docs/semantics/values.md`, "Values as text".
    """
    return _TEXTS[value.__class__](value)


def json_text(value: Any) -> str:
    """A value as compact JSON: dates are strings, keys keep their order, and only necessary escapes are used."""
    return _JSON_TEXTS[value.__class__](value)


def _json_list(items: list[Any]) -> str:
    return "[" + ",".join(map(json_text, items)) + "]"


def _json_dict(entries: dict[str, Any]) -> str:
    return "{" + ",".join(f"{_quote(key)}:{json_text(value)}" for key, value in entries.items()) + "}"


_JSON_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    float: json_float_text,
    Decimal: decimal_text,
    str: _quote,
    date: lambda value: f'"{value.isoformat()}"',
    datetime: lambda value: f'"{datetime_text(value)}"',
    list: _json_list,
    dict: _json_dict,
}
_TEXTS: dict[type, Callable[[Any], str]] = {
    **_JSON_TEXTS,
    type(None): lambda value: "",
    float: float_text,
    str: str,
    date: date.isoformat,
    datetime: datetime_text,
}


# ---- the same, less, and keys --------------------------------------------------------------------------------------


def equal(left: Any, right: Any) -> bool:
    """True if two non-null values are `==`: 1 equals 1.0, other kinds do not mix, containers compare deeply.

    Beside a Float every number is a Float; a Decimal and an Int compare exactly.
    """
    kind, other = left.__class__, right.__class__
    if kind is not other:
        if kind not in _NUMBERS or other not in _NUMBERS:
            return False
        return float(left) == float(right) if float in (kind, other) else bool(left == right)
    if kind is list:
        return len(left) == len(right) and all(map(_equal_inside, left, right))
    if kind is dict:
        return left.keys() == right.keys() and all(_equal_inside(value, right[key]) for key, value in left.items())
    return bool(left == right)


def _equal_inside(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return equal(left, right)


def comparable(left: Any, right: Any) -> bool:
    """True if `<` means something between two non-null values: numbers, texts, dates or date-times among themselves."""
    kind, other = left.__class__, right.__class__
    if kind is not other:
        return kind in _NUMBERS and other in _NUMBERS
    return kind in (int, float, str, date, datetime, Decimal)


def key_of(value: Any) -> Hashable:
    """A hashable key: two values are the same key exactly if these are equal.

    Null equals null, 1 equals 1.0 and 1.00d, -0.0 equals 0.0. NaN, arrays and maps are no keys: `TypeError`. A Float is
    one key with the Decimal that its text spells: 0.1 with 0.1d.
    """
    kind = value.__class__
    if kind is Decimal:
        plain = plainest(value)
        return ("decimal", plain) if plain.__class__ is Decimal else plain
    if kind is bool:
        return ("bool", value)
    if kind is list or kind is dict or value != value:
        raise TypeError(f"{kind_name(value)} is no key")
    return value  # type: ignore[no-any-return]


def plainest(number: Decimal) -> int | float | Decimal:
    """The Int that equals a Decimal, else the Float whose text spells it, else the number without zeros at its end.

    No two unequal Decimals give the same, and no Float equals two of them.
    """
    if number == number.to_integral_value():
        return int(number)
    near = float(number)
    return near if Decimal(repr(near)) == number else number.normalize(_DIGITS)


def kind_name(value: Any) -> str:
    """The name of a value's kind as `type_of` prints it, `NaN` for NaN."""
    return "NaN" if value.__class__ is float and value != value else str(kind_of(value))


def is_finite(value: Any) -> bool:
    """True if no NaN and no infinity is in a value, however deep."""
    kind = value.__class__
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(is_finite, value))
    if kind is dict:
        return all(map(is_finite, value.values()))
    return True


# ---- dynamic values as tagged JSON ---------------------------------------------------------------------------------

_DATE, _DATETIME, _FLOAT, _DECIMAL = "$date", "$datetime", "$float", "$decimal"
#: A text that occurs in every tagged value and every escaped key (and, rarely, elsewhere).
_TAG = '"$'


def encode(value: Any) -> str | None:
    """A value of any kind as tagged compact JSON, the text that a dynamic column holds; null is None.

    Numbers keep their kind by the decimal point. A date is `{"$date":"2024-01-31"}`, a date-time `{"$datetime":…}`, a
    Decimal `{"$decimal":"12.50"}`, a NaN or infinity `{"$float":…}`; a user's own key that starts with `$` gets a
    second one.
    """
    return None if value is None else _ENCODERS[value.__class__](value)


def _encode_inside(value: Any) -> str:
    return _ENCODERS[value.__class__](value)


def _encode_float(number: float) -> str:
    return repr(number) if math.isfinite(number) else f'{{"{_FLOAT}":"{number!r}"}}'


def _encode_decimal(number: Decimal) -> str:
    return f'{{"{_DECIMAL}":"{number:f}"}}'


_encode_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _encode_container(value: list[Any] | dict[str, Any]) -> str:
    """A container by the encoder in C, unless something in it needs a tag."""
    try:
        text = _encode_plain(value)
    except (TypeError, ValueError):
        text = _TAG
    if _TAG not in text:
        return text
    return _encode_dict(value) if isinstance(value, dict) else "[" + ",".join(map(_encode_inside, value)) + "]"


def _encode_dict(entries: dict[str, Any]) -> str:
    return (
        "{"
        + ",".join(f"{_quote('$' + k if k[:1] == '$' else k)}:{_encode_inside(v)}" for k, v in entries.items())
        + "}"
    )


_ENCODERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: str,
    float: _encode_float,
    Decimal: _encode_decimal,
    str: _quote,
    date: lambda value: f'{{"{_DATE}":"{value.isoformat()}"}}',
    datetime: lambda value: f'{{"{_DATETIME}":"{value.isoformat()}"}}',
    list: _encode_container,
    dict: _encode_container,
}
_DECODERS: dict[str, Callable[[Any], Any]] = {
    _DATE: date.fromisoformat,
    _DATETIME: datetime.fromisoformat,
    _FLOAT: float,
    _DECIMAL: Decimal,
}


def _decode_object(pairs: list[tuple[str, Any]]) -> Any:
    if len(pairs) == 1 and pairs[0][0] in _DECODERS:
        name, text = pairs[0]
        return _DECODERS[name](text)
    return {key[1:] if key[:1] == "$" else key: value for key, value in pairs}


_decode_tagged = json.JSONDecoder(object_pairs_hook=_decode_object).decode
_decode_plain = json.JSONDecoder().decode


def decode(text: str | None) -> Any:
    """Decode a tagged text into its value."""
    if text is None:
        return None
    return _decode_tagged(text) if _TAG in text else _decode_plain(text)


# ---- Arrow ---------------------------------------------------------------------------------------------------------


def arrow_type(static: types.Type) -> pa.DataType:
    """The Arrow type of a column of this CXL type; dynamic types are `string` columns of tagged JSON."""
    import pyarrow as pa

    if static.is_dynamic:
        return pa.string()
    match static.kind:
        case Kind.BOOL:
            return pa.bool_()
        case Kind.INT:
            return pa.int64()
        case Kind.FLOAT:
            return pa.float64()
        case Kind.DECIMAL:
            assert static.scale is not None
            return pa.decimal128(_DIGITS.prec, static.scale)
        case Kind.DATE:
            return pa.date32()
        case Kind.DATETIME:
            return pa.timestamp("us")
        case Kind.ARRAY:
            assert static.element is not None
            return pa.list_(arrow_type(static.element))
        case _:
            return pa.string()


def to_arrow(values: Iterable[Any], static: types.Type) -> pa.Array:
    """Python values of a CXL type as an Arrow array.

    Ints under a Float type become floats, under a Decimal type Decimals. `pyarrow.ArrowInvalid` or `ArrowTypeError`
    where a value is not of the type (a bug).
    """
    import pyarrow as pa

    if static.kind is Kind.DECIMAL:
        values = (Decimal(value) if value.__class__ is int else value for value in values)
    if static.is_dynamic:
        return pa.array(map(encode, values), pa.string())
    return pa.array(values, arrow_type(static))


def retyped(array: pa.Array, static: types.Type, wanted: types.Type) -> pa.Array:
    """A column of one CXL type as a column of a type that holds its values: an Int as a Float, anything as `Any`."""
    import pyarrow.compute as pc

    if wanted.kind is Kind.FLOAT and static.kind is Kind.DECIMAL:
        if not static.is_dynamic:
            from spark_jobs.cxl import decimal_units

            return decimal_units.floats(array)
        return to_arrow([None if item is None else float(item) for item in from_arrow(array, static)], wanted)
    if static.is_dynamic is not wanted.is_dynamic:
        return to_arrow(from_arrow(array, static), wanted)
    target = arrow_type(wanted)
    if wanted.kind is Kind.DECIMAL and array.type != target:
        return to_arrow(from_arrow(array, static), wanted)
    return array if array.type == target else pc.cast(array, target, safe=False)  # a large Int is a rounded Float


def from_arrow(array: pa.Array, static: types.Type) -> list[Any]:
    """The Python values of an Arrow array (or chunked array) of a CXL type."""
    items: list[Any] = array.to_pylist()
    if not static.is_dynamic:
        return items
    # One text for all values is decoded many times faster than a text each.
    found: list[Any] = decode("[" + ",".join(["null" if item is None else item for item in items]) + "]")
    return found
