"""Converts values to the declared types of variables."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import decimals, engine, failure, types, values
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.nodes.state.step import Assignment


def accepts(declared: types.Type, given: types.Type) -> bool:
    """True if a variable may take values of a type. Dynamic values are checked one by one."""
    if given.is_dynamic or given.kind in (Kind.NULL, declared.kind):
        return True
    return declared.kind in (Kind.FLOAT, Kind.DECIMAL) and given.kind is Kind.INT


def has_more_digits(declared: types.Type, given: types.Type) -> bool:
    """True if Decimals of a type have more digits after the decimal point than a variable declares."""
    if declared.kind is not Kind.DECIMAL or given.kind is not Kind.DECIMAL:
        return False
    return declared.scale is not None and given.scale is not None and given.scale > declared.scale


def without_precision(assignment: Assignment) -> Assignment:
    """The assignment to a variable without declared precision, which may have all digits of a Decimal."""
    return replace(assignment, type=replace(assignment.type, precision=None))


def given_type(assignment: Assignment) -> types.Type:
    """The type of an assignment's expression."""
    last = assignment.value.after if assignment.is_total else assignment.value  # type: ignore[union-attr]
    return last.emits[-1][1]  # type: ignore[union-attr]


def cast_column(
    node: str, assignment: Assignment, column: pa.Array, given: types.Type
) -> tuple[pa.Array, list[engine.RowFailure]]:
    """A column converted to the variable's type, and the failures of rows whose value has another type."""
    if not given.is_dynamic:
        if assignment.type.kind is Kind.DECIMAL and assignment.type.scale is not None:
            return _with_digits(node, assignment, column)
        return values.retyped(column, given, assignment.type), []
    found: list[Any] = []
    wrong = []
    for row, value in enumerate(values.from_arrow(column, given)):
        if not fits(assignment, value):
            wrong.append(engine.RowFailure(row, misfit(node, assignment, value)))
            value = None
        found.append(cast_value(assignment, value))
    return values.to_arrow(found, assignment.type), wrong


def _with_digits(node: str, assignment: Assignment, column: pa.Array) -> tuple[pa.Array, list[engine.RowFailure]]:
    """Decimals or Ints with the digits that the variable declares. Nothing is rounded."""
    import numpy as np

    from spark_jobs.cxl import decimal_columns

    declared = assignment.type
    assert declared.scale is not None
    found, bad = decimal_columns.lossless(column, declared.precision, declared.scale)
    rows = [] if bad is None else np.flatnonzero(bad).tolist()
    return found, [engine.RowFailure(row, misfit(node, assignment, column[row].as_py())) for row in rows]


def fits(assignment: Assignment, value: Any) -> bool:
    """True if the variable can take a value."""
    if value is None:
        return True
    kind, declared = values.kind_of(value), assignment.type
    if declared.kind is Kind.DECIMAL and kind in (Kind.DECIMAL, Kind.INT):
        return decimals.declared(Decimal(value), declared.precision, declared.scale) is not None
    return kind is declared.kind or (kind is Kind.INT and declared.kind is Kind.FLOAT)


def cast_value(assignment: Assignment, value: Any) -> Any:
    """A value that fits, converted to the variable's type."""
    declared = assignment.type
    if value is None:
        return None
    if declared.kind is Kind.DECIMAL:
        return decimals.declared(Decimal(value), declared.precision, declared.scale)
    return float(value) if declared.kind is Kind.FLOAT else value


def misfit(node: str, assignment: Assignment, value: Any) -> failure.Failure:
    """The failure of a record whose value has another type."""
    declared, given = assignment.type.non_null(), values.kind_name(value)
    if declared.kind is Kind.DECIMAL and values.kind_of(value) in (Kind.DECIMAL, Kind.INT):
        given = f"`{values.text_of(value)}`, which would have to be rounded or cut"
    detail = f"state {node}: ${assignment.path} is declared as {declared}, got {given}"
    return failure.Failure(detail, failure.Category.TYPE_COERCION, value)
