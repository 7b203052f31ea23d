"""Arrow kernels of the conversions: fast casts where all rows are plain, exact rules for the rest.

Each kernel returns the converted array and a mask of rows that do not convert; `strict` and `lenient` turn it into
builtins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark_jobs.cxl import types, values
from spark_jobs.cxl.builtins import array_kernels as arrays
from spark_jobs.cxl.builtins.declare import NoKernel

_INT = r"\A[+-]?[0-9]+\z"
_FLOAT = r"(?i)\A[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)\z"
_DATE = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_DATETIME = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?\z"

Converter = Callable[..., Any]


@dataclass(frozen=True)
class Strict:
    """A kernel that reports unconvertible rows as failures: its mask has exactly these rows."""

    convert: Converter

    def __call__(self, pc: Any, *arguments: Any) -> Any:
        """The converted array and the mask, None where everything converts."""
        return self.convert(pc, *arguments)


def strict(convert: Converter) -> Any:
    """A kernel that reports unconvertible rows as failures."""
    return Strict(convert)


def lenient(convert: Converter) -> Any:
    """A kernel that gives null for unconvertible rows."""

    def kernel(pc: Any, *arguments: Any) -> Any:
        converted, bad = convert(pc, *arguments)
        return converted if bad is None else pc.if_else(bad, arrays.scalar(None, _type_of(converted)), converted)

    return kernel


def _type_of(array: Any) -> types.Type:
    if str(array.type).startswith("decimal"):
        return types.decimal_of(None, array.type.scale)
    return {
        "int64": types.INT,
        "double": types.FLOAT,
        "bool": types.BOOL,
        "date32[day]": types.DATE,
        "timestamp[us]": types.DATETIME,
    }[str(array.type)]


def _partly(pc: Any, text: Any, plain: Any, target: types.Type, cast: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Casts the plain rows; the others are bad. `plain` is a mask that is null where the text is."""
    fits = pc.fill_null(plain, False)
    nothing = arrays.filled(len(text), None, target)
    converted = arrays.where(fits, cast, text, nothing)
    return converted, pc.and_(pc.invert(fits), pc.is_valid(text))


def to_int(rule: Callable[[Any], int | None]) -> Converter:
    """Whole texts, Floats cut toward zero within 64 bits, Bools; `rule` is the exact one."""

    def convert(pc: Any, value: Any) -> Any:
        import pyarrow as pa

        kind = str(value.type)
        if kind == "int64":
            return value, None
        if kind == "bool":
            return pc.cast(value, "int64"), None
        if kind == "double":
            fits = pc.and_(pc.greater_equal(value, -(2.0**63)), pc.less(value, 2.0**63))
            return _partly(pc, value, fits, types.INT, lambda some: pc.cast(pc.trunc(some), "int64"))
        if pa.types.is_decimal(value.type):
            converted, _ = arrays.by_value(rule, value, types.INT)
            return converted, pc.and_(pc.is_null(converted), pc.is_valid(value))
        if kind != "string":
            return _nothing(pc, value, types.INT)
        try:
            # Arrow reads hexadecimal numbers, CXL does not.
            if not arrays.has_byte(value, b"xX"):
                return pc.cast(value, "int64"), None
        except pa.ArrowInvalid:
            pass
        digits = pc.match_substring_regex(value, pattern=_INT)
        short = pc.less_equal(pc.binary_length(pc.ascii_ltrim(value, characters="+-0")), 18)
        converted, bad = _partly(
            pc,
            value,
            pc.and_(digits, short),
            types.INT,
            lambda some: pc.cast(pc.ascii_ltrim(some, characters="+"), "int64"),
        )
        long = pc.fill_null(pc.and_(digits, pc.invert(short)), False)
        if not pc.any(long, min_count=0).as_py():
            return converted, bad
        # 19 digits may or may not fit; the rule itself decides.
        exact = arrays.by_value(rule, value.filter(long), types.INT)[0]
        converted = pc.replace_with_mask(converted, long, exact)
        return converted, pc.and_(pc.is_null(converted), pc.is_valid(value))

    return convert


def to_float(pc: Any, value: Any) -> Any:
    """Ints and texts of numbers."""
    import pyarrow as pa

    kind = str(value.type)
    if kind == "double":
        return value, None
    if kind == "int64":
        return pc.cast(value, "float64", safe=False), None
    if pa.types.is_decimal(value.type):
        return arrays.floats(value), None
    if kind != "string":
        return _nothing(pc, value, types.FLOAT)
    try:
        if not arrays.has_byte(value, b"("):
            return pc.cast(value, "float64"), None
    except pa.ArrowInvalid:
        pass
    number = pc.match_substring_regex(value, pattern=_FLOAT)
    return _partly(pc, value, number, types.FLOAT, lambda some: pc.cast(some, "float64"))


def to_decimal(rule: Callable[[Any, int | None], Any]) -> Converter:
    """Decimals of a scale, from Decimals, Ints, and texts without more digits; `rule` is the exact one."""

    def convert(pc: Any, value: Any, scale: Any) -> Any:
        import pyarrow as pa

        from spark_jobs.cxl import decimal_columns

        given = arrays.constant(scale)
        if given is None:
            raise NoKernel
        places = max(given, 0)
        if pa.types.is_decimal(value.type) or str(value.type) == "int64":
            return arrays.with_failures(*decimal_columns.rescaled(value, places))
        if str(value.type) == "string" and (found := decimal_columns.of_texts(value, None, places)) is not None:
            return found, None
        converted, _ = arrays.by_value(lambda one: rule(one, places), value, types.decimal_of(None, places))
        return converted, pc.and_(pc.is_null(converted), pc.is_valid(value))

    return convert


def to_bool(rule: Callable[[Any], bool | None]) -> Converter:
    """Ints and the six words; `rule` is the exact one."""

    def convert(pc: Any, value: Any) -> Any:
        kind = str(value.type)
        if kind == "bool":
            return value, None
        if kind == "int64":
            return pc.not_equal(value, 0), None
        if kind != "string":
            return _nothing(pc, value, types.BOOL)
        converted, _ = arrays.by_value(rule, value, types.BOOL)
        return converted, pc.and_(pc.is_null(converted), pc.is_valid(value))

    return convert


def _nothing(pc: Any, value: Any, target: types.Type) -> tuple[Any, Any]:
    """No value of this kind converts."""
    return arrays.filled(len(value), None, target), pc.is_valid(value)


def _form(form: Any) -> str | None:
    return None if form is None else arrays.constant(form)


def to_date(rule: Callable[..., Any]) -> Converter:
    """The kernel of a Date conversion whose exact rule is `rule(value, format)`."""

    def convert(pc: Any, value: Any, form: Any = None) -> Any:
        kind = str(value.type)
        if kind == "date32[day]":
            return value, None
        if kind == "timestamp[us]":
            return pc.cast(pc.floor_temporal(value, unit="day"), "date32", safe=False), None
        if kind != "string":
            return _nothing(pc, value, types.DATE)
        return _parsed(pc, value, _form(form), rule, types.DATE, _DATE)

    return convert


def to_datetime(rule: Callable[..., Any]) -> Converter:
    """The kernel of a DateTime conversion whose exact rule is `rule(value, format)`."""

    def convert(pc: Any, value: Any, form: Any = None) -> Any:
        kind = str(value.type)
        if kind == "timestamp[us]":
            return value, None
        if kind == "date32[day]":
            return pc.cast(value, values.arrow_type(types.DATETIME)), None
        if kind != "string":
            return _nothing(pc, value, types.DATETIME)
        return _parsed(pc, value, _form(form), rule, types.DATETIME, _DATETIME)

    return convert


def _parsed(
    pc: Any, text: Any, form: str | None, rule: Callable[..., Any], target: types.Type, iso: str
) -> tuple[Any, Any]:
    """Arrow's own cast where all rows are plain ISO 8601 in the years 1 to 9999, else the rule on distinct texts."""
    import pyarrow as pa

    plain = pc.and_(pc.match_substring_regex(text, pattern=iso), pc.invert(pc.starts_with(text, pattern="0000")))
    iso_forms = (None, "%Y-%m-%d", "%F") if target == types.DATE else (None,)
    if form in iso_forms and pc.all(plain, min_count=0).as_py():
        try:
            return pc.cast(text, values.arrow_type(target)), None
        except pa.ArrowInvalid:
            pass
    converted, _ = arrays.by_value(lambda value: rule(value, form), text, target)
    return converted, pc.and_(pc.is_null(converted), pc.is_valid(text))


def to_string(pc: Any, value: Any) -> Any:
    """The text of each value, or of a constant."""
    if arrays.is_constant(value):
        return arrays.scalar(values.text_of(value.as_py()), types.STRING)
    kind = str(value.type)
    if kind == "string":
        return value
    if kind in ("bool", "int64", "date32[day]"):
        return pc.cast(value, "string")
    if kind == "double":
        return _float_texts(pc, value)
    if kind == "timestamp[us]":
        return _datetime_texts(pc, value)
    if kind.startswith("decimal"):
        from spark_jobs.cxl import decimal_columns

        return decimal_columns.texts(value)
    raise NoKernel


def _datetime_texts(pc: Any, value: Any) -> Any:
    """Arrow's text of the whole seconds with its space made a `T`; moments with a fraction one by one."""
    seconds = pc.floor_temporal(value, unit="second")
    text = pc.replace_substring(pc.utf8_slice_codeunits(pc.cast(seconds, "string"), 0, 19), " ", "T")
    odd = pc.fill_null(pc.not_equal(seconds, value), False)
    if not pc.any(odd, min_count=0).as_py():
        return text
    exact = arrays.by_value(values.datetime_text, value.filter(odd), types.STRING)[0]
    return pc.replace_with_mask(text, odd, exact)


def _float_texts(pc: Any, value: Any) -> Any:
    """Arrow's texts, with those mended that have an exponent or are no numbers."""
    text = pc.cast(value, "string")
    if not arrays.has_byte(text, b"en"):
        return text
    odd = pc.fill_null(pc.match_substring_regex(text, pattern="[en]"), False)
    mended = arrays.by_value(values.float_text, value.filter(odd), types.STRING)[0]
    return pc.replace_with_mask(text, odd, mended)
