"""Values as the declared types of variables have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import engine, failure, types, values
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.nodes.state.step import Assignment


def accepts(declared: types.Type, given: types.Type) -> bool:
    """Whether a variable may take values of a type. Dynamic values are checked one by one."""
    if given.is_dynamic or given.kind in (Kind.NULL, declared.kind):
        return True
    return declared.kind is Kind.FLOAT and given.kind is Kind.INT


def given_type(assignment: Assignment) -> types.Type:
    """The type of what an assignment evaluates to."""
    last = assignment.value.after if assignment.is_total else assignment.value  # type: ignore[union-attr]
    return last.emits[-1][1]  # type: ignore[union-attr]


def fitted(
    node: str, assignment: Assignment, column: pa.Array, given: types.Type
) -> tuple[pa.Array, list[engine.RowFailure]]:
    """A column of values of a type as the variable has them, and the rows whose value is of another type."""
    if not given.is_dynamic:
        return values.retyped(column, given, assignment.type), []
    found: list[Any] = []
    wrong = []
    for row, value in enumerate(values.from_arrow(column, given)):
        if not fits(assignment, value):
            wrong.append(engine.RowFailure(row, misfit(node, assignment, value)))
            value = None
        found.append(value)
    return values.to_arrow(found, assignment.type), wrong


def fits(assignment: Assignment, value: Any) -> bool:
    """Whether a value can be the variable's."""
    if value is None:
        return True
    kind = values.kind_of(value)
    return kind is assignment.type.kind or (kind is Kind.INT and assignment.type.kind is Kind.FLOAT)


def converted(assignment: Assignment, value: Any) -> Any:
    """A value that fits as the variable has it."""
    return float(value) if assignment.type.kind is Kind.FLOAT and value is not None else value


def misfit(node: str, assignment: Assignment, value: Any) -> failure.Failure:
    """The failure of a record whose value is of another type."""
    detail = f"state {node}: ${assignment.path} is declared as {assignment.type.kind}, got {values.kind_name(value)}"
    return failure.Failure(detail, failure.Category.TYPE_COERCION, value)
