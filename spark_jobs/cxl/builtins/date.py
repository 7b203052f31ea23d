"""Date and DateTime methods (`docs/semantics/cxl.md`, "Date arithmetic")."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime, timedelta
from typing import Annotated, Any

from spark_jobs.cxl import failure, types, values
from spark_jobs.cxl.builtins import array_kernels as arrays
from spark_jobs.cxl.builtins import date_texts
from spark_jobs.cxl.builtins.conversion import Format  # noqa: TC001 - annotations are read at run time
from spark_jobs.cxl.builtins.declare import BY_VALUE, Int, NoKernel, String, Temporal, method
from spark_jobs.cxl.dates import strftime

_DAY_US = 86_400_000_000


def _field(kernel: str) -> Any:
    return lambda pc, value: pc.cast(getattr(pc, kernel)(value), "int64")


def _time_field(kernel: str) -> Any:
    def extract(pc: Any, value: Any) -> Any:
        if str(value.type) == "date32[day]":
            return arrays.filled(len(value), None, types.INT)
        return pc.cast(getattr(pc, kernel)(value), "int64")

    return extract


def _time_result(arguments: Any) -> types.Type:
    return types.INT if arguments[0].kind is types.Kind.DATETIME else types.INT.or_null()


@method(arrow=_field("year"))
def year(value: Temporal) -> Int:
    """The year.

    >>> #2024-03-15#.year()
    2024
    """
    return value.year  # type: ignore[no-any-return]


@method(arrow=_field("month"))
def month(value: Temporal) -> Int:
    """The month, 1 to 12.

    >>> #2024-03-15#.month()
    3
    """
    return value.month  # type: ignore[no-any-return]


@method(arrow=_field("day"))
def day(value: Temporal) -> Int:
    """The day of the month, 1 to 31.

    >>> #2024-03-15#.day()
    15
    """
    return value.day  # type: ignore[no-any-return]


@method(arrow=_time_field("hour"), result=_time_result)
def hour(value: Temporal) -> Int:
    """The hour, 0 to 23; null for a Date.

    >>> "2024-03-15T14:30:00".to_datetime().hour()
    14
    >>> #2024-03-15#.hour()
    null
    """
    return value.hour if isinstance(value, datetime) else None  # type: ignore[return-value]


@method(arrow=_time_field("minute"), result=_time_result)
def minute(value: Temporal) -> Int:
    """The minute, 0 to 59; null for a Date.

    >>> "2024-03-15T14:30:00".to_datetime().minute()
    30
    """
    return value.minute if isinstance(value, datetime) else None  # type: ignore[return-value]


@method(arrow=_time_field("second"), result=_time_result)
def second(value: Temporal) -> Int:
    """The second, 0 to 59; null for a Date.

    >>> "2024-03-15T14:30:45".to_datetime().second()
    45
    """
    return value.second if isinstance(value, datetime) else None  # type: ignore[return-value]


def _same(arguments: Any) -> types.Type:
    return arguments[0].non_null()  # type: ignore[no-any-return]


def _out_of_range(value: Any) -> failure.Failure:
    return failure.conversion(values.text_of(value), "a date between the years 1 and 9999")


def _type_of(array: Any) -> types.Type:
    return types.DATE if str(array.type) == "date32[day]" else types.DATETIME


def _days_kernel(pc: Any, value: Any, count: Any) -> Any:
    number = arrays.constant(count) or 0
    if abs(number) > 4_000_000:
        raise NoKernel
    kind = _type_of(value)
    unit, ticks = ("int32", number) if kind is types.DATE else ("int64", number * _DAY_US)
    moved = pc.cast(pc.add(pc.cast(value, unit), arrays.scalar(ticks, types.INT).cast(unit)), values.arrow_type(kind))
    low, high = _BOUNDS[kind.kind]
    outside = pc.or_(pc.less(moved, arrays.scalar(low, kind)), pc.greater(moved, arrays.scalar(high, kind)))
    return moved, pc.fill_null(outside, False)


_BOUNDS = {
    types.Kind.DATE: (date.min, date.max),
    types.Kind.DATETIME: (datetime.min, datetime.max),
}


@method(arrow=_days_kernel, nulls="receiver", result=_same, fails=True)
def add_days(value: Temporal, count: Int) -> Temporal:
    """The value some days later, earlier when `count` is negative; null counts as 0. A DateTime keeps its time.

    >>> #2024-01-15#.add_days(10)
    "2024-01-25"
    >>> #2024-01-15#.add_days(-5)
    "2024-01-10"
    """
    try:
        return value + timedelta(days=count or 0)
    except OverflowError:
        raise _out_of_range(value) from None


def _add_months(value: Any, count: int) -> Any:
    index = value.year * 12 + value.month - 1 + count
    to_year, to_month = index // 12, index % 12 + 1
    if not 1 <= to_year <= 9999:
        raise _out_of_range(value)
    return value.replace(year=to_year, month=to_month, day=min(value.day, monthrange(to_year, to_month)[1]))


def _months_kernel(months: int) -> Any:
    def kernel(pc: Any, value: Any, count: Any) -> Any:
        number = (arrays.constant(count) or 0) * months
        if _type_of(value) is types.DATE:
            return arrays.by_value(lambda one: _add_months(one, number), value, types.DATE)
        midnight = pc.floor_temporal(value, unit="day")
        moved, bad = arrays.by_value(lambda one: _add_months(one, number), midnight, types.DATETIME)
        return pc.add(moved, pc.subtract(value, midnight)), bad

    return kernel


@method(arrow=_months_kernel(1), nulls="receiver", result=_same, fails=True)
def add_months(value: Temporal, count: Int) -> Temporal:
    """The value some months later, or the last day of a shorter month; null counts as 0.

    >>> #2024-01-31#.add_months(1)
    "2024-02-29"
    """
    return _add_months(value, count or 0)


@method(arrow=_months_kernel(12), nulls="receiver", result=_same, fails=True)
def add_years(value: Temporal, count: Int) -> Temporal:
    """The value some years later; 29 February becomes 28 February in a year without it. Null counts as 0.

    >>> #2024-02-29#.add_years(1)
    "2025-02-28"
    """
    return _add_months(value, 12 * (count or 0))


def _moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def _diff_days(pc: Any, value: Any, other: Any) -> Any:
    if str(value.type) == str(other.type) == "date32[day]":
        return pc.cast(pc.subtract(pc.cast(value, "int32"), pc.cast(other, "int32")), "int64")
    left, right = (pc.cast(pc.cast(side, values.arrow_type(types.DATETIME)), "int64") for side in (value, other))
    return pc.divide(pc.subtract(left, right), _DAY_US)


@method(arrow=_diff_days)
def diff_days(value: Temporal, other: Temporal) -> Int:
    """The whole days from `other` to the value, negative when it is earlier.

    >>> #2024-03-15#.diff_days(#2024-03-01#)
    14
    >>> #2024-01-01#.diff_days(#2024-03-15#)
    -74
    """
    if not isinstance(value, datetime) and not isinstance(other, datetime):
        return (value - other).days  # type: ignore[no-any-return]
    difference = _moment(value) - _moment(other)
    return -(-difference // timedelta(days=1)) if difference < timedelta() else difference // timedelta(days=1)


def _whole_months(later: datetime, earlier: datetime) -> int:
    months = (later.year - earlier.year) * 12 + later.month - earlier.month
    # The last day of a short month counts as the earlier date's day there.
    day_there = min(earlier.day, monthrange(later.year, later.month)[1])
    return months if (later.day, later.time()) >= (day_there, earlier.time()) else months - 1


def _months_between(pc: Any, value: Any, other: Any) -> Any:
    """`_whole_months` on arrays: the months, and the mask of rows where the value is the earlier one."""
    left, right = (pc.cast(side, values.arrow_type(types.DATETIME)) for side in (value, other))
    swapped = pc.less(left, right)
    later, earlier = pc.if_else(swapped, right, left), pc.if_else(swapped, left, right)
    years = pc.subtract(pc.year(later), pc.year(earlier))
    months = pc.add(pc.multiply(years, 12), pc.subtract(pc.month(later), pc.month(earlier)))
    last_day = pc.day(
        pc.subtract(pc.ceil_temporal(later, unit="month", ceil_is_strictly_greater=True), timedelta(days=1))
    )
    day, day_there = pc.day(later), pc.min_element_wise(pc.day(earlier), last_day)
    clock, clock_there = (pc.subtract(side, pc.floor_temporal(side, unit="day")) for side in (later, earlier))
    reached = pc.or_(
        pc.greater(day, day_there), pc.and_(pc.equal(day, day_there), pc.greater_equal(clock, clock_there))
    )
    return pc.if_else(reached, months, pc.subtract(months, 1)), swapped


def _diff_kernel(unit: int) -> Any:
    def kernel(pc: Any, value: Any, other: Any) -> Any:
        if arrays.is_constant(other):
            other = arrays.repeated(other, len(value))
        months, swapped = _months_between(pc, value, other)
        whole = pc.divide(months, unit)
        return pc.if_else(swapped, pc.negate(whole), whole)

    return kernel


@method(arrow=_diff_kernel(1))
def diff_months(value: Temporal, other: Temporal) -> Int:
    """The largest number of months that, added to `other`, does not go past the value.

    With the sides changed it is the negative of that.

    >>> #2024-03-14#.diff_months(#2024-01-15#)
    1
    >>> #2024-02-29#.diff_months(#2024-01-31#)
    1
    """
    left, right = _moment(value), _moment(other)
    return _whole_months(left, right) if left >= right else -_whole_months(right, left)


@method(arrow=_diff_kernel(12))
def diff_years(value: Temporal, other: Temporal) -> Int:
    """The largest number of years that, added to `other`, does not go past the value.

    With the sides changed it is the negative of that.

    >>> #2024-03-15#.diff_years(#2000-03-15#)
    24
    """
    left, right = _moment(value), _moment(other)
    return _whole_months(left, right) // 12 if left >= right else -(_whole_months(right, left) // 12)


@method(arrow=date_texts.kernel, fails=True)
def format_date(value: Temporal, form: Format) -> String:
    """The value by a format of `strftime` codes, with English names; the time fields of a Date are 0.

    >>> #2024-03-15#.format_date("%B %d, %Y")
    "March 15, 2024"
    """
    return strftime.write(value, form)


#: The units to which moments are truncated: days and longer, then parts of a day.
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _unit_complaint(unit: str) -> str | None:
    return None if unit in _UNITS else f"expected one of {', '.join(_UNITS)}"


#: A unit of time; a literal is checked when the program is compiled.
Unit = Annotated[str, types.STRING, _unit_complaint]


@method(arrow=BY_VALUE, result=lambda arguments: arguments[0].non_null(), fails=True)
def truncate_to(value: Temporal, unit: Unit) -> Temporal:
    """The beginning of the unit in which a Date or DateTime is; ours.

    Units are `year`, `quarter`, `month`, `week` (from Monday), `day`, `hour`, `minute` and `second`.

    >>> #2024-05-15#.truncate_to("month")
    "2024-05-01"
    >>> #2024-05-15#.truncate_to("quarter")
    "2024-04-01"
    >>> #2024-05-15#.truncate_to("week")
    "2024-05-13"
    """
    if (complaint := _unit_complaint(unit)) is not None:
        raise failure.Failure(f"invalid unit '{unit}': {complaint}", value=unit)
    if isinstance(value, datetime):
        smaller = _UNITS[max(_UNITS.index(unit), _UNITS.index("day")) + 1 :]
        kept = [*value.timetuple()[: 6 - len(smaller)], 0, 0, 0]
        value = datetime(kept[0], kept[1], kept[2], kept[3], kept[4], kept[5])
    match unit:
        case "year":
            return value.replace(month=1, day=1)
        case "quarter":
            return value.replace(month=value.month - (value.month - 1) % 3, day=1)
        case "month":
            return value.replace(day=1)
        case "week":
            return _monday(value)
    return value


def _monday(value: Any) -> Any:
    """The Monday of the week; the days before the first one of the calendar have none."""
    try:
        return value - timedelta(days=value.weekday())
    except OverflowError:
        raise failure.overflow("truncate_to") from None
