"""The functions of `$window`.

The frame is the partition's rows from its first to the current one, in the order of `sort_by`; a cross-source window
sees the whole matched group. The window node computes them; these declarations are what the documentation and tools
know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import types
from spark_jobs.cxl.builtins.declare import Takes, window
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence


def _value(arguments: Sequence[types.Type]) -> types.Type:
    return arguments[0].or_null()


def _total(arguments: Sequence[types.Type]) -> types.Type:
    kind = arguments[0].kind
    return (arguments[0] if kind in (Kind.INT, Kind.FLOAT) else types.NUMERIC).or_null()


def _array(arguments: Sequence[types.Type]) -> types.Type:
    return types.array_of(arguments[0].non_null())


def _int(arguments: Sequence[types.Type]) -> types.Type:
    return types.INT


def _float(arguments: Sequence[types.Type]) -> types.Type:
    return types.FLOAT.or_null()


def _bool(arguments: Sequence[types.Type]) -> types.Type:
    return types.BOOL.or_null()


window("sum", Takes.NUMBER, _total, "The running sum of the field; Ints give an Int, nulls are skipped.")
window("cumulative_sum", Takes.NUMBER, _total, "The same as `sum`: the running sum up to the current row.")
window("avg", Takes.NUMBER, _float, "The mean of the field over the frame, a Float; nulls are skipped.")
window("min", Takes.FIELD, _value, "The smallest value in the frame; nulls are skipped.")
window("max", Takes.FIELD, _value, "The largest value in the frame; nulls are skipped.")
window("count", Takes.NOTHING, _int, "The number of rows in the frame.")
window("first_value", Takes.FIELD, _value, "The field of the frame's first row, null included.")
window("last_value", Takes.FIELD, _value, "The field of the frame's last row, null included.")
window("collect", Takes.FIELD, _array, "The values of the frame that are not null, in order.")
window("distinct", Takes.FIELD, _array, "The different values of the frame that are not null, by first appearance.")
window("row_number", Takes.NOTHING, _int, "The position of the row in its partition, from 1.")
window("rank", Takes.NOTHING, _int, "The position of the first row with the same `sort_by` values; ties leave gaps.")
window("dense_rank", Takes.NOTHING, _int, "The number of different `sort_by` values so far; ties leave no gaps.")
window("first", Takes.POSITION, _value, "A field of the partition's first row: `$window.first().amount`.")
window("last", Takes.POSITION, _value, "A field of the frame's last row: `$window.last().amount`.")
window(
    "lag",
    Takes.OFFSET,
    _value,
    "A field of the row that many places before: `$window.lag(1).amount` or `$window.lag(1, amount)`.",
)
window("lead", Takes.OFFSET, _value, "A field of the row that many places after: `$window.lead(1).amount`.")
window("any", Takes.PREDICATE, _bool, "Whether the predicate is true for some row of the frame.")
window("exists", Takes.PREDICATE, _bool, "The same as `any`.")
window("every", Takes.PREDICATE, _bool, "Whether the predicate is true for every row of the frame.")
window("not_exists", Takes.PREDICATE, _bool, "Whether the predicate is true for no row of the frame.")
