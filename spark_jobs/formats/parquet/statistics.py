"""Skips row groups if statistics prove that none of their records passes the first filter.

All records of a skipped row group must convert, because records that do not are dead letters before any filter. So all
declared columns must have types that always convert, and required ones no nulls.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl.types import Kind
from spark_jobs.formats.typed import natural
from spark_jobs.formats.typed.pruning import Known, can_skip

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    | {(kind, given) for kind in (Kind.BOOL, Kind.INT, Kind.STRING) for given in (Kind.STRING, Kind.ANY)}
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
    tests: list[tuple[Test, str, Any]] = []
    for column, field in zip(wanted.columns, columns.declared, strict=True):
        if field is None:
            if column.required:
                return frozenset()
            continue
        top, name, kind = leaves[field]
        static = _static(kind)
        if top != name or (static, column.type.kind) not in _SURE:
            return frozenset()
        if column.required:
            required.append(name)
        if pa.types.is_temporal(kind) and (bounds := natural.limits(kind)) is not None:
            limited.append((name, bounds))
        if static is column.type.kind and not pa.types.is_unsigned_integer(kind):
            mine = [test for test in wanted.passes if test.column == column.name]
            tests += [(test, name, _as_known(test.value)) for test in mine]
    return frozenset(
        number
        for number, group in enumerate(groups)
        if _converts(group, required, limited) and _passes_none(group, tests)
    )


def always_converts(kind: pa.DataType, declared: Kind) -> bool:
    """Whether all values of a column of some type convert to a declared one."""
    return (_static(kind), declared) in _SURE


def _static(kind: pa.DataType) -> Kind | None:
    """The kind of a column if all of its values have it; None if some may not."""
    if pa.types.is_dictionary(kind):
        return _static(kind.value_type)
    if pa.types.is_uint64(kind) or pa.types.is_date64(kind) or pa.types.is_nested(kind) or pa.types.is_decimal(kind):
        return None
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return None
    static = natural.type_of(kind)
    return None if static is None or static.is_dynamic else static.kind


def _as_known(value: Any) -> Any:
    """A value as statistics have it."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value.toordinal() - _FIRST_DAY if isinstance(value, date) else value


def _converts(group: Group, required: Sequence[str], limited: Sequence[tuple[str, tuple[int, int]]]) -> bool:
    """Whether all records have what is required, and days and moments that there are."""
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


def _passes_none(group: Group, tests: Sequence[tuple[Test, str, Any]]) -> bool:
    """Whether one of the tests lets no record go on."""
    for test, name, value in tests:
        chunk = group.chunks.get(name)
        if chunk is None:
            continue
        known = Known(group.rows, chunk.nulls)
        if isinstance(value, bytes) == isinstance(chunk.lowest, bytes):
            known = Known(group.rows, chunk.nulls, chunk.lowest, chunk.highest)
        if can_skip(test, value, known):
            return True
    return False
