"""Numeric functions accept only numbers: a record with another value is a dead letter and joins no group.

The numeric functions of analytic windows share this rule: such a value is a failure of its row.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from spark_jobs.cxl import engine, failure, types, values
from spark_jobs.cxl.builtins import declare

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from spark_jobs.nodes.aggregate.step import AggregateStep

#: The beginning of a number's text in a dynamic column; NaN, infinities and Decimals are tagged.
_NUMBER = r'^([-0-9]|\{"\$(float|decimal)")'


def arguments(step: AggregateStep) -> dict[str, str]:
    """The columns whose values may turn out not to be numbers, with the function that reads them."""
    functions = declare.aggregates()
    return {
        name: call.function
        for call in step.program.calls
        for name, static, is_number in zip(
            call.arguments, call.argument_types, functions[call.function].numbers, strict=False
        )
        if is_number and static.kind is types.Kind.ANY
    }


def failures(
    step: AggregateStep, wanted: Mapping[str, str], columns: Mapping[str, pa.Array]
) -> list[engine.RowFailure]:
    """The rows whose arguments are neither numbers nor null, each with its first such value."""
    found: dict[int, engine.RowFailure] = {}
    for name, function in wanted.items():
        column = columns[name]
        for row in others(column).tolist():
            if row not in found:
                value = values.decode(column[row].as_py())
                field = None if name.startswith("$") else name
                found[row] = engine.RowFailure(row, problem(f"aggregate {step.name}: {function}", value, field))
    return [found[row] for row in sorted(found)]


def others(column: pa.Array) -> np.ndarray:
    """A mask of the values that are neither numbers nor null, for a column of dynamic values."""
    fits = pc.fill_null(pc.match_substring_regex(column, _NUMBER), True)
    found: np.ndarray = np.flatnonzero(~fits.to_numpy(zero_copy_only=False))
    return found


def check(node: str, function: str, value: object, name: str) -> None:
    """Raise `Failure` unless an argument is a number or null."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float, Decimal))):
        raise problem(f"aggregate {node}: {function}", value, None if name.startswith("$") else name)


def problem(function: str, value: object, field: str | None = None) -> failure.Failure:
    """The failure of a function of numbers for a value that is no number."""
    detail = f"{function}() takes numbers, got {values.kind_name(value)}"
    return failure.Failure(detail, failure.Category.AGGREGATE_TYPE, value, field)
