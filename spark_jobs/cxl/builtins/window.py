"""The functions of `$window` that are no aggregate functions, each in one place: its types, documentation and kernel.

The frame is the partition's rows from its first to the current one, in the order of `sort_by`; a cross-source window
sees the whole matched group. `running` names the kernel (`spark_jobs/nodes/windows/kernels/choice.py`). Functions that
are aggregates of the frame are declared with these (`aggregates.py`).
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import types, values
from spark_jobs.cxl.builtins.declare import Gathers, Takes, window

if TYPE_CHECKING:
    from collections.abc import Sequence


def _value(arguments: Sequence[types.Type]) -> types.Type:
    return arguments[0].or_null()


def _array(arguments: Sequence[types.Type]) -> types.Type:
    return types.array_of(arguments[0].non_null())


def _int(arguments: Sequence[types.Type]) -> types.Type:
    return types.INT


def _bool(arguments: Sequence[types.Type]) -> types.Type:
    return types.BOOL.or_null()


class Gathered:
    """The values that are not null, so far; with `once` each kind of value once."""

    def __init__(self, *, once: bool) -> None:
        self._once = once
        self._seen: set[str] = set()
        self.items: list[Any] = []

    def step(self, value: Any) -> None:
        """Take a value in."""
        text = values.encode(0.0 if value == 0.0 and value.__class__ is float else value)
        if text is None or (self._once and text in self._seen):
            return
        self._seen.add(text)
        self.items.append(value)

    def finish(self) -> list[Any]:
        """The array so far."""
        return copy.copy(self.items)


window(
    "count",
    Takes.NOTHING,
    _int,
    "The number of rows in the frame.",
    running=lambda kernels, call: kernels.RowNumber(call),
    empty=0,
)
window(
    "first_value",
    Takes.FIELD,
    _value,
    "The field of the frame's first row, null included.",
    running=lambda kernels, call: kernels.First(call),
)
window(
    "last_value",
    Takes.FIELD,
    _value,
    "The field of the frame's last row, null included.",
    running=lambda kernels, call: kernels.Own(call),
)
window(
    "collect",
    Takes.FIELD,
    _array,
    "The values of the frame that are not null, in order.",
    running=lambda kernels, call: kernels.Collect(call),
    meaning=partial(Gathered, once=False),
    empty=[],
    gathers=Gathers.ALL,
)
window(
    "distinct",
    Takes.FIELD,
    _array,
    "The different values of the frame that are not null, by first appearance.",
    running=lambda kernels, call: kernels.Distinct(call),
    meaning=partial(Gathered, once=True),
    empty=[],
    gathers=Gathers.DISTINCT,
)
window(
    "row_number",
    Takes.NOTHING,
    _int,
    "The position of the row in its partition, from 1.",
    running=lambda kernels, call: kernels.RowNumber(call),
    by_position=True,
)
window(
    "rank",
    Takes.NOTHING,
    _int,
    "The position of the first row with the same `sort_by` values; ties leave gaps.",
    running=lambda kernels, call: kernels.Rank(call),
    by_position=True,
)
window(
    "dense_rank",
    Takes.NOTHING,
    _int,
    "The number of different `sort_by` values so far; ties leave no gaps.",
    running=lambda kernels, call: kernels.DenseRank(call),
    by_position=True,
)
window(
    "first",
    Takes.POSITION,
    _value,
    "A field of the partition's first row: `$window.first().amount`.",
    running=lambda kernels, call: kernels.First(call),
)
window(
    "last",
    Takes.POSITION,
    _value,
    "A field of the frame's last row: `$window.last().amount`.",
    running=lambda kernels, call: kernels.Own(call),
)
window(
    "lag",
    Takes.OFFSET,
    _value,
    "A field of the row that many places before: `$window.lag(1).amount` or `$window.lag(1, amount)`.",
    running=lambda kernels, call: kernels.lag_of(call),
    by_position=True,
)
window(
    "lead",
    Takes.OFFSET,
    _value,
    "A field of the row that many places after: `$window.lead(1).amount`.",
    running=lambda kernels, call: kernels.lead_of(call),
    by_position=True,
)
window(
    "any",
    Takes.PREDICATE,
    _bool,
    "Whether the predicate is true for some row of the frame.",
    running=lambda kernels, call: kernels.AnyRow(call),
    empty=False,
)
window(
    "exists",
    Takes.PREDICATE,
    _bool,
    "The same as `any`.",
    running=lambda kernels, call: kernels.AnyRow(call),
    empty=False,
)
window(
    "every",
    Takes.PREDICATE,
    _bool,
    "Whether the predicate is true for every row of the frame.",
    running=lambda kernels, call: kernels.EveryRow(call),
    empty=True,
)
window(
    "not_exists",
    Takes.PREDICATE,
    _bool,
    "Whether the predicate is true for no row of the frame.",
    running=lambda kernels, call: kernels.NoRow(call),
    empty=True,
)
