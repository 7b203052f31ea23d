"""Skips row groups if statistics prove that none of their records passes the first filter.

All records of a skipped row group must convert, because records that do not are dead letters before any filter. So all
declared columns must have types that always convert, and required ones no nulls.
"""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import decimals
from spark_jobs.cxl.types import Kind
from spark_jobs.formats.typed import natural
from spark_jobs.formats.typed.pruning import Known, can_skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.format import FileColumns, Reading
    from spark_jobs.formats.parquet.footer import Group
    from spark_jobs.formats.typed.pruning import Test

#: Pairs of kinds that always convert: kind in the file, declared kind.
_SURE = frozenset(
    {
        (Kind.INT, Kind.FLOAT), (Kind.INT, Kind.BOOL), (Kind.INT, Kind.NUMERIC), (Kind.FLOAT, Kind.NUMERIC),
        (Kind.BOOL, Kind.FLOAT), (Kind.BOOL, Kind.INT),
    }
    | {(kind, kind) for kind in (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.STRING, Kind.DATE, Kind.DATETIME)}
    | {(kind, given) for kind in (Kind.BOOL, Kind.INT, Kind.STRING, Kind.DECIMAL) for given in (Kind.STRING, Kind.ANY)}
    | {(Kind.DECIMAL, Kind.FLOAT)}
)  # fmt: skip
_FIRST_DAY = date(1970, 1, 1).toordinal()


def passed_over(
    groups: Sequence[Group], leaves: Sequence[tuple[str, str, pa.DataType]], columns: FileColumns, wanted: Reading
) -> frozenset[int]:
    """The numbers of row groups whose records all convert and are all filtered.

    Args:
        groups: the row groups.
        leaves: the columns of the file: the name of the one at the top, their own, and their types.
        columns: which of them feed which declared ones.
        wanted: the requirements for reading, with the predicates of the first filter.
    """
    required: list[str] = []
    limited: list[tuple[str, tuple[int, int]]] = []
    #: With the column in the file, the value as statistics have it, and the scale of a Decimal.
    tests: list[tuple[Test, str, Any, int | None]] = []
    for column, field in zip(wanted.columns, columns.declared, strict=True):
        if field is None:
            if column.required:
                return frozenset()
            continue
        top, name, kind = leaves[field]
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        static = _static(kind)
        fits, bounds = _fit(kind, column.type)
        if top != name or not fits:
            return frozenset()
        if bounds is not None:
            limited.append((name, bounds))
        if column.required:
            required.append(name)
        if static is column.type.kind and not pa.types.is_unsigned_integer(kind):
            mine = [test for test in wanted.passes if test.column == column.name]
            tests += [
                (test, name, _as_known(test, kind), kind.scale if static is Kind.DECIMAL else None) for test in mine
            ]
    return frozenset(
        number
        for number, group in enumerate(groups)
        if _converts(group, required, limited) and _passes_none(group, tests)
    )


def always_converts(kind: pa.DataType, declared: Type) -> bool:
    """Whether all values of a column of some type convert to a declared one."""
    fits, bounds = _fit(kind, declared)
    return fits and (bounds is None or pa.types.is_temporal(kind))


def _fit(kind: pa.DataType, declared: Type) -> tuple[bool, tuple[int, int] | None]:
    """Whether values of a column convert to a declared type, and the range that they have to be in; None: any."""
    static = _static(kind)
    if static is Kind.DECIMAL is declared.kind:
        if declared.scale is None:
            return True, None
        room = (declared.precision or decimals.MAX_DIGITS) - declared.scale
        most = 10 ** (room + kind.scale) - 1
        return kind.scale <= declared.scale, None if kind.precision - kind.scale <= room else (-most, most)
    if (static, declared.kind) not in _SURE:
        return False, None
    return True, natural.limits(kind) if pa.types.is_temporal(kind) else None


def _static(kind: pa.DataType) -> Kind | None:
    """The kind of a column if all of its values have it; None if some may not."""
    if pa.types.is_dictionary(kind):
        return _static(kind.value_type)
    if pa.types.is_decimal(kind):
        # Decimals without digits after the point are Ints or texts, and wider ones are texts.
        return Kind.DECIMAL if kind.scale > 0 and kind.precision <= decimals.MAX_DIGITS else None
    if pa.types.is_uint64(kind) or pa.types.is_date64(kind) or pa.types.is_nested(kind):
        return None
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return None
    static = natural.type_of(kind)
    return None if static is None or static.is_dynamic else static.kind


def _as_known(test: Test, kind: pa.DataType) -> Any:
    """The value of a test as statistics have it; Decimals are compared as fractions of units."""
    value = test.value
    if pa.types.is_decimal(kind) and value is not None:
        return value if isinstance(value, float) else Fraction(value) * 10**kind.scale
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value.toordinal() - _FIRST_DAY if isinstance(value, date) else value


def _converts(group: Group, required: Sequence[str], limited: Sequence[tuple[str, tuple[int, int]]]) -> bool:
    """Whether the statistics prove that no record lacks a required value or has a date or moment out of range."""
    for name in required:
        if name not in group.chunks or group.chunks[name].nulls != 0:
            return False
    for name, (first, last) in limited:
        chunk = group.chunks.get(name)
        if chunk is None:
            return False
        is_known = isinstance(chunk.lowest, int) and isinstance(chunk.highest, int)
        if chunk.nulls != group.rows and not (is_known and first <= chunk.lowest <= chunk.highest <= last):
            return False
    return True


def _passes_none(group: Group, tests: Sequence[tuple[Test, str, Any, int | None]]) -> bool:
    """Whether one of the tests lets no record go on."""
    for test, name, value, scale in tests:
        chunk = group.chunks.get(name)
        if chunk is None:
            continue
        known = Known(group.rows, chunk.nulls)
        if isinstance(value, bytes) == isinstance(chunk.lowest, bytes):
            lowest, highest = chunk.lowest, chunk.highest
            if scale is not None and isinstance(value, float) and lowest is not None:
                # Decimals are compared with Floats as Floats; the nearest of a larger number is not smaller.
                lowest, highest = (float(Fraction(each, 10**scale)) for each in (lowest, highest))
            known = Known(group.rows, chunk.nulls, lowest, highest)
        if can_skip(test, value, known):
            return True
    return False
