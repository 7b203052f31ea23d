"""Conversions: `to_*` fail on unconvertible values, `try_*` give null."""

from __future__ import annotations

import decimal
import math
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any

from spark_jobs.cxl import decimals, failure, hints, number_pattern, types, values
from spark_jobs.cxl.builtins import array_kernels as arrays
from spark_jobs.cxl.builtins import conversion_kernels as kernels
from spark_jobs.cxl.builtins import date_texts
from spark_jobs.cxl.builtins.declare import (
    Anything,
    Bool,
    Date,
    DateTime,
    Decimal,
    DigitsAfterPoint,
    Float,
    Int,
    NoKernel,
    Numeric,
    String,
    Temporal,
    method,
)
from spark_jobs.cxl.dates import calendar, strftime

if TYPE_CHECKING:
    from collections.abc import Callable

#: A date format; a literal is checked when the program is compiled.
Format = Annotated[str, types.STRING, strftime.complaint]
#: A date format for reading.
ReadFormat = Annotated[str, types.STRING, strftime.reading_complaint]

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_BOOLS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def int_of(value: Any) -> int | None:
    """A value as an Int, or None: texts of digits, Floats and Decimals (cut toward zero, within 64 bits), Bools."""
    kind = value.__class__
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is str:
        if not _INT.fullmatch(value) or len(value.lstrip("+-0")) > 19:
            return None
        number = int(value)
        return number if values.MIN_INT <= number <= values.MAX_INT else None
    if kind is float:
        return int(value) if math.isfinite(value) and -(2.0**63) <= value < 2.0**63 else None
    if kind is decimal.Decimal:
        number = int(value)
        return number if values.MIN_INT <= number <= values.MAX_INT else None
    return int(value) if kind is bool else None


def float_of(value: Any) -> float | None:
    """A value as a Float, or None; texts may not have spaces or underscores."""
    kind = value.__class__
    if kind is float or kind is int or kind is decimal.Decimal:
        return float(value)
    return float(value) if kind is str and _FLOAT.fullmatch(value) else None


def decimal_of(value: Any, scale: int | None = None) -> decimal.Decimal | None:
    """A value as a Decimal, or None: Ints, texts of numbers, Floats by the digits of their text.

    With a scale it is rounded half away from zero; None too where it has more than 38 digits.
    """
    kind = value.__class__
    if kind is decimal.Decimal:
        found: decimal.Decimal | None = value
    elif kind is str:
        found = decimals.of_text(value)
    elif kind is int:
        found = decimals.of_int(value)
    else:
        found = decimals.of_float(value) if kind is float else None
    return found if found is None or scale is None else decimals.rounded(found, max(scale, 0))


def bool_of(value: Any) -> bool | None:
    """A value as a Bool, or None: `true`, `1`, `yes`, `false`, `0`, `no` in any case; an Int is true unless it is 0."""
    kind = value.__class__
    if kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return bool(value != 0)
    return _BOOLS.get(value.lower()) if kind is str else None


def date_of(value: Any, form: str | None = None) -> date | None:
    """A value as a Date, or None; a DateTime gives its day."""
    kind = value.__class__
    if kind is date:
        return value  # type: ignore[no-any-return]
    if kind is datetime:
        return value.date()  # type: ignore[no-any-return]
    if kind is not str:
        return None
    return strftime.parse_date(value, form)


def datetime_of(value: Any, form: str | None = None) -> datetime | None:
    """A value as a DateTime, or None; a Date gives its midnight."""
    kind = value.__class__
    if kind is datetime:
        return value  # type: ignore[no-any-return]
    if kind is date:
        return datetime(value.year, value.month, value.day)
    if kind is not str:
        return None
    return strftime.parse_datetime(value, form)


def _strict(convert: Callable[..., Any], target: str, *arguments: Any) -> Any:
    result = convert(*arguments)
    if result is None:
        text = values.text_of(arguments[0])
        hint = hints.of_text(hints.IN_PROGRAMS, types.Kind(target), text) if arguments[0].__class__ is str else ""
        raise failure.conversion(text, target, hint)
    return result


def _or_null(kind: types.Type) -> Any:
    return lambda arguments: kind.or_null()


@method(arrow=kernels.strict(kernels.to_int(int_of)), fails=True)
def to_int(value: Anything) -> Int:
    """The value as an Int: a Float or Decimal is cut toward zero, true is 1.

    A text must be all digits, with an optional sign.

    >>> "42".to_int()
    42
    >>> 3.9.to_int()
    3
    >>> " 42 ".to_int()
    error: conversion failed: cannot convert ' 42 ' to Int
    """
    return _strict(int_of, "Int", value)  # type: ignore[no-any-return]


@method(arrow=kernels.lenient(kernels.to_int(int_of)), result=_or_null(types.INT))
def try_int(value: Anything) -> Int:
    """The value as an Int, or null.

    >>> "42".try_int()
    42
    >>> "abc".try_int()
    null
    """
    return int_of(value)  # type: ignore[return-value]


@method(arrow=kernels.strict(kernels.to_float), fails=True)
def to_float(value: Anything) -> Float:
    """The value as a Float; a Bool fails.

    >>> "3.14".to_float()
    3.14
    >>> 42.to_float()
    42.0
    """
    return _strict(float_of, "Float", value)  # type: ignore[no-any-return]


@method(arrow=kernels.lenient(kernels.to_float), result=_or_null(types.FLOAT))
def try_float(value: Anything) -> Float:
    """The value as a Float, or null.

    >>> "N/A".try_float()
    null
    """
    return float_of(value)  # type: ignore[return-value]


@method(arrow=kernels.to_decimal(decimal_of), nulls="receiver", fails=True)
def to_decimal(value: Anything, scale: DigitsAfterPoint = None) -> Decimal:  # type: ignore[assignment]
    """The value as a Decimal, exact, with as many digits after the point as it has; a Bool fails.

    With a scale it has that many digits after the point, rounded half away from zero. A Float is taken by the digits of
    its text. More than 38 digits do not convert. Ours.

    >>> "12.50".to_decimal()
    12.50
    >>> 12.to_decimal(2)
    12.00
    >>> "0.125".to_decimal(2)
    0.13
    >>> 0.1.to_decimal()
    0.1
    >>> "n/a".to_decimal()
    error: conversion failed: cannot convert 'n/a' to Decimal
    """
    return _strict(decimal_of, "Decimal", value, scale)  # type: ignore[no-any-return]


@method(arrow=kernels.lenient(kernels.to_decimal(decimal_of)), nulls="receiver", result=_or_null(types.DECIMAL))
def try_decimal(value: Anything, scale: DigitsAfterPoint = None) -> Decimal:  # type: ignore[assignment]
    """The value as a Decimal, or null. Ours.

    >>> "12.50".try_decimal()
    12.50
    >>> "n/a".try_decimal()
    null
    """
    return decimal_of(value, scale)  # type: ignore[return-value]


@method(arrow=kernels.strict(kernels.to_bool(bool_of)), fails=True)
def to_bool(value: Anything) -> Bool:
    """The value as a Bool: `true`, `1`, `yes` and `false`, `0`, `no` in any case.

    An Int is true unless it is 0; a Float fails.

    >>> "yes".to_bool()
    true
    >>> 0.to_bool()
    false
    """
    return _strict(bool_of, "Bool", value)  # type: ignore[no-any-return]


@method(arrow=kernels.lenient(kernels.to_bool(bool_of)), result=_or_null(types.BOOL))
def try_bool(value: Anything) -> Bool:
    """The value as a Bool, or null.

    >>> "maybe".try_bool()
    null
    """
    return bool_of(value)  # type: ignore[return-value]


@method(arrow=kernels.to_string)
def to_string(value: Anything) -> String:
    """The value's text: Floats without exponent and trailing zero, Decimals with all digits, dates by ISO 8601.

    Arrays and maps are compact JSON.

    >>> 42.to_string()
    "42"
    >>> 21.0.to_string()
    "21"
    """
    return values.text_of(value)


def _is_plain(form: str) -> str | None:
    """Refuse a format for types without formats, unless it is empty."""
    if not form:
        return None
    return "only numbers, Dates and DateTimes have one; convert the value first, say with `.to_float()` or `.to_date()`"


#: A pattern of the CLDR for numbers; a literal is checked when the program is compiled.
NumberFormat = Annotated[str, types.STRING, number_pattern.complaint]
#: The format of all other values, which is empty.
NoFormat = Annotated[str, types.STRING, _is_plain]
#: Values without a format other than their text.
Unformatted = Annotated[Any, types.STRING, types.BOOL, types.ARRAY, types.MAP]


def _formatted(kernel: Callable[..., Any]) -> Any:
    """The kernel of an overload of `format`: the usual text where the format is empty, else its own kernel."""

    def convert(pc: Any, value: Any, form: Any) -> Any:
        if not calendar.split(arrays.constant(form))[1]:
            return kernels.to_string(pc, value)
        return kernel(pc, value, form)

    return convert


def _number_kernel(pc: Any, value: Any, form: Any) -> Any:
    text = calendar.split(form.as_py())[1]
    return arrays.by_value(lambda one: number_pattern.write(one, text), value, types.STRING)


def _no_kernel(pc: Any, value: Any, form: Any) -> Any:
    raise NoKernel


@method(name="format", arrow=_formatted(date_texts.kernel), fails=True)
def format_temporal(value: Temporal, form: Format) -> String:
    """The value by a format of `strftime` codes, like `format_date`; by the empty format its text.

    >>> #2024-03-15#.format("%Y-%m")
    "2024-03"
    >>> "2024-03-15T14:30:00".to_datetime().format("%H:%M")
    "14:30"
    >>> #2024-03-15#.format("")
    "2024-03-15"
    """
    return strftime.write(value, form) if calendar.split(form)[1] else values.text_of(value)


@method(name="format", arrow=_formatted(_number_kernel), fails=True)
def format_number(value: Numeric, number_format: NumberFormat) -> String:
    """The number written by a CLDR pattern and rounded exactly, a half away from zero; an empty pattern gives its text.

    `0` is a digit that is always written, `#` a digit that is left out if it is an outer zero. `,` separates groups and
    `.` is the decimal point. `%` multiplies by 100, `‰` by 1,000. Other text may surround the digits; characters with a
    meaning need single quotes. A second pattern after `;` is for negative numbers. NaN and infinities are written as
    text, and a number that is rounded to 0 has no sign.

    >>> 1234.5.format("0.00")
    "1234.50"
    >>> 1234567.format("#,##0")
    "1,234,567"
    >>> 0.256.format("0.0%")
    "25.6%"
    >>> (-1234.5).format("#,##0.00;(#,##0.00)")
    "(1,234.50)"
    >>> 1.005.format("0.00")
    "1.01"
    >>> 2.5.format("0.###")
    "2.5"
    >>> 7.format("'No. '000")
    "No. 007"
    >>> 42.format("")
    "42"
    """
    return number_pattern.write(value, calendar.split(number_format)[1])


@method(name="format", arrow=_formatted(_no_kernel), fails=True)
def format_other(value: Unformatted, format: NoFormat) -> String:
    """The value's text; only numbers, Dates and DateTimes have formats other than the empty one.

    >>> true.format("")
    "true"
    >>> "abc".format("")
    "abc"
    """
    found = calendar.split(format)[1]
    if found:
        raise failure.Failure(f"{values.kind_of(value)} has no format but the empty one, found '{found}'", value=found)
    return values.text_of(value)


def _given(form: str | None) -> str | None:
    """Checks a computed format where a failure may say that it is wrong."""
    if form is not None:
        strftime.compiled(form)
    return form


@method(arrow=kernels.strict(kernels.to_date(date_of)), nulls="receiver", fails=True)
def to_date(value: Anything, form: ReadFormat = None) -> Date:  # type: ignore[assignment]
    """The value as a Date: `YYYY-MM-DD`, or by a format; a DateTime gives its day.

    >>> "2024-03-15".to_date()
    "2024-03-15"
    >>> "15/03/2024".to_date("%d/%m/%Y")
    "2024-03-15"
    """
    return _strict(date_of, "Date", value, _given(form))


@method(arrow=kernels.lenient(kernels.to_date(date_of)), nulls="receiver", result=_or_null(types.DATE))
def try_date(value: Anything, form: ReadFormat = None) -> Date:  # type: ignore[assignment]
    """The value as a Date, or null.

    >>> "not a date".try_date()
    null
    """
    return date_of(value, form)


@method(arrow=kernels.strict(kernels.to_datetime(datetime_of)), nulls="receiver", fails=True)
def to_datetime(value: Anything, form: ReadFormat = None) -> DateTime:  # type: ignore[assignment]
    """The value as a DateTime: `YYYY-MM-DDTHH:MM:SS` with an optional fraction, or by a format.

    A Date gives its midnight. By a format with `%z`, or `Z` after the time, a text with an offset is converted to UTC.

    >>> "2024-03-15T14:30:00".to_datetime()
    "2024-03-15T14:30:00"
    >>> "2024-03-15T14:30:00+02:00".to_datetime("%Y-%m-%dT%H:%M:%S%z")
    "2024-03-15T12:30:00"
    """
    return _strict(datetime_of, "DateTime", value, _given(form))


@method(arrow=kernels.lenient(kernels.to_datetime(datetime_of)), nulls="receiver", result=_or_null(types.DATETIME))
def try_datetime(value: Anything, form: ReadFormat = None) -> DateTime:  # type: ignore[assignment]
    """The value as a DateTime, or null.

    >>> "invalid".try_datetime()
    null
    """
    return datetime_of(value, form)
