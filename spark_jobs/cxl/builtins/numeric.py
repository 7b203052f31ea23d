"""Numeric methods. A method whose type is Float gives a Float, also for Ints; roundings of Decimals are Decimals."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import arithmetic, decimals, failure, types, values
from spark_jobs.cxl.builtins import array_kernels as arrays
from spark_jobs.cxl.builtins.declare import BY_VALUE, Float, Int, NoKernel, Numeric, Scale, method
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence


def _kind_of_receiver(arguments: Sequence[types.Type]) -> types.Type:
    kind = arguments[0].kind
    return arguments[0].non_null() if kind in (Kind.INT, Kind.FLOAT, Kind.DECIMAL) else types.NUMERIC


def _kind_of_all(arguments: Sequence[types.Type]) -> types.Type:
    """Int among Ints, Decimal among these and Decimals, Float where a Float takes part, unknown where one is."""
    known = [argument for argument in arguments if argument.kind is not Kind.NULL]
    kinds = {argument.kind for argument in known}
    if kinds == {Kind.INT}:
        return types.INT
    if kinds <= {Kind.INT, Kind.DECIMAL}:
        scales = {argument.scale for argument in known}
        return types.decimal_of(None, scales.pop() if len(scales) == 1 else None)
    return types.FLOAT if kinds <= {Kind.INT, Kind.FLOAT, Kind.DECIMAL} else types.NUMERIC


def _rounded_type(arguments: Sequence[types.Type]) -> types.Type:
    return types.DECIMAL if arguments[0].kind is Kind.DECIMAL else types.FLOAT


@method(arrow=lambda pc, number: pc.abs_checked(number), result=_kind_of_receiver, fails=True)
def abs_(number: Numeric) -> Numeric:
    """The number without its sign, of the same type. The smallest Int has no counterpart: an error.

    >>> (-42).abs()
    42
    >>> (-3.14).abs()
    3.14
    """
    if number.__class__ is Decimal:
        return decimals.absolute(number)
    return arithmetic.negate_int(number) if number.__class__ is int and number < 0 else abs(number)


def _to_int(number: float | Decimal, rounded: Any) -> int:
    found = rounded(number) if math.isfinite(number) else None
    if found is None or not values.MIN_INT <= found <= values.MAX_INT:
        raise failure.conversion(values.text_of(number), "Int")
    return found  # type: ignore[no-any-return]


def _rounded_to_int(kernel: str) -> Any:
    def to_int(pc: Any, number: Any) -> Any:
        return number if number.type == "int64" else pc.cast(getattr(pc, kernel)(number), "int64")

    return to_int


@method(arrow=_rounded_to_int("ceil"), fails=True)
def ceil(number: Numeric) -> Int:
    """The nearest Int that is not less; outside 64 bits it is an error.

    >>> 3.2.ceil()
    4
    >>> (-3.2).ceil()
    -3
    """
    return number if number.__class__ is int else _to_int(number, math.ceil)


@method(arrow=_rounded_to_int("floor"), fails=True)
def floor(number: Numeric) -> Int:
    """The nearest Int that is not greater; outside 64 bits it is an error.

    >>> 3.8.floor()
    3
    >>> (-3.2).floor()
    -4
    """
    return number if number.__class__ is int else _to_int(number, math.floor)


def _half_away(number: float, decimals: int) -> float:
    if not math.isfinite(number) or decimals > 308:
        return number
    if decimals < -308:
        return math.copysign(0.0, number)
    power = 10.0 ** abs(decimals)
    scaled = abs(number) * power if decimals >= 0 else abs(number) / power
    if math.isinf(scaled):
        return number
    whole = math.floor(scaled)
    rounded = float(whole + 1 if scaled - whole >= 0.5 else whole)
    return math.copysign(rounded / power if decimals >= 0 else rounded * power, number)


def _round(pc: Any, number: Any, decimals: Any) -> Any:
    """The formula of `_half_away` on whole arrays; Arrow's own rounding differs in the last digit of some numbers."""
    import numpy as np

    digits = arrays.constant(decimals) or 0
    if str(number.type).startswith("decimal"):
        from spark_jobs.cxl import decimal_columns

        return arrays.with_failures(*decimal_columns.rescaled(number, digits))
    if abs(digits) > 300:
        raise NoKernel
    floats = pc.cast(number, "float64", safe=False)
    known = floats.fill_null(0.0).to_numpy(zero_copy_only=False)
    power = 10.0 ** abs(digits)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.abs(known) * power if digits >= 0 else np.abs(known) / power
        whole = np.floor(scaled)
        whole += scaled - whole >= 0.5
        rounded = np.copysign(whole / power if digits >= 0 else whole * power, known)
    rounded = np.where(np.isfinite(scaled), rounded, known)
    return arrays.like(floats, rounded)


def _round_decimal(number: Decimal, places: int) -> Decimal:
    found = decimals.rounded(number, places)
    if found is None:
        raise decimals.overflow("round")
    return found


@method(arrow=_round, nulls="receiver", result=_rounded_type)
def round_(number: Numeric, decimals: Scale = 0) -> Float:
    """The number rounded half away from zero to some decimal places: of a Decimal a Decimal, else a Float.

    The places may be negative; null means 0. A Decimal has that many places then, also if it had fewer. Floats are
    computed in binary floating point: `1.005.round(2)` is 1.0.

    >>> 3.456.round(2)
    3.46
    >>> 2.5.round()
    3.0
    >>> 1250.round(-2)
    1300.0
    >>> 1.005d.round(2)
    1.01
    """
    if number.__class__ is Decimal:
        return _round_decimal(number, decimals or 0)  # type: ignore[return-value]  # as `result` says
    return _half_away(float(number), decimals or 0)


@method(arrow=_round, result=_rounded_type)
def round_to(number: Numeric, decimals: Scale) -> Float:
    """The number rounded half away from zero to the given decimal places: of a Decimal a Decimal, else a Float.

    >>> 3.14159.round_to(3)
    3.142
    >>> 2.5d.round_to(2)
    2.50
    """
    if number.__class__ is Decimal:
        return _round_decimal(number, decimals)  # type: ignore[return-value]  # as `result` says
    return _half_away(float(number), decimals)


def _clamp(pc: Any, number: Any, low: Any, high: Any) -> Any:
    upper = pc.if_else(pc.fill_null(pc.greater(number, high), False), high, number)
    return pc.if_else(pc.fill_null(pc.less(number, low), False), low, upper)


@method(arrow=_clamp, nulls="receiver", result=_kind_of_all)
def clamp(number: Numeric, low: Numeric, high: Numeric) -> Numeric:
    """The number, or the bound that it lies beyond. The low bound is checked first; a null bound does not limit.

    >>> 150.clamp(0, 100)
    100
    >>> (-5).clamp(0, 100)
    0
    >>> 50.clamp(0, 100)
    50
    """
    if low is not None and number < low:
        return low
    return high if high is not None and number > high else number


@method(arrow=lambda pc, number, other: pc.if_else(pc.less(number, other), number, other), result=_kind_of_all)
def min_(number: Numeric, other: Numeric) -> Numeric:
    """The smaller of two numbers.

    >>> 10.min(20)
    10
    """
    return number if number < other else other


@method(arrow=lambda pc, number, other: pc.if_else(pc.greater(number, other), number, other), result=_kind_of_all)
def max_(number: Numeric, other: Numeric) -> Numeric:
    """The larger of two numbers.

    >>> 10.max(20)
    20
    """
    return number if number > other else other


def _sqrt(pc: Any, number: Any) -> Any:
    floats = arrays.floats(number)
    return pc.sqrt(floats), pc.fill_null(pc.less(floats, 0.0), False)


@method(arrow=_sqrt, fails=True)
def square_root(number: Numeric) -> Float:
    """The square root, always a Float; of a negative number it is an error. Ours.

    >>> 9.square_root()
    3.0
    >>> (-1).square_root()
    error: the square root of a negative number
    """
    if number < 0:
        raise failure.Failure("the square root of a negative number", value=str(number))
    return math.sqrt(number)


@method(arrow=BY_VALUE, fails=True)
def power(number: Numeric, exponent: Numeric) -> Float:
    """The number to the power of another one, always a Float; where there is no such number it is an error. Ours.

    >>> 2.power(10)
    1024.0
    >>> 2.power(-1)
    0.5
    >>> (-8).power(0.5)
    error: -8 to the power of 0.5 is no number
    """
    try:
        return math.pow(number, exponent)
    except (ValueError, OverflowError):
        text = f"{values.text_of(number)} to the power of {values.text_of(exponent)} is no number"
        raise failure.Failure(text, value=values.text_of(number)) from None
