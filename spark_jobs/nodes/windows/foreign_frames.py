"""Groups of rows of another source: each is a whole frame for the records that match it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import values
from spark_jobs.nodes import spill
from spark_jobs.nodes.combine import build, index
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.windows import arguments, codes, pairs
from spark_jobs.nodes.windows.kernels import choice
from spark_jobs.nodes.windows.rows import Order, SortedBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.nodes.operator import Context
    from spark_jobs.nodes.terms.needs import Rows
    from spark_jobs.nodes.windows.arguments import Evaluator
    from spark_jobs.nodes.windows.call import Call, Match

#: Buffered rows leave this part of a task's share (one in so many) to the records that look them up.
_LEFT = 4


@dataclass(frozen=True)
class Groups:
    """Rows grouped by the columns that records match, each group sorted.

    Args:
        frame: the rows, one group after another.
        bounds: the first row of each group, and the end of the last one.
        table: finds the group of a record.
        matches: the columns that must be equal.
    """

    frame: pa.RecordBatch
    bounds: np.ndarray
    table: index.BuildTable
    matches: tuple[Match, ...]

    @classmethod
    def of(cls, table: pa.Table, matches: tuple[Match, ...], order: Order) -> Groups:
        """Group rows. Rows without a value in a sort field with `null_order: drop` belong to no group."""
        rows = batches.gather(table)
        known = {m.there: m.there_type for m in matches} | {f.name: f.declared_type for f in order.fields}
        rows = batches.overlay(rows, {n: arguments.column(rows, n, values.arrow_type(t)) for n, t in known.items()})
        for field in order.fields:
            if field.drops_nulls:
                rows = rows.filter(rows.column(field.name).is_valid())
        if order.fields:
            rows = rows.take(pa.array(codes.order(order.field_codes(rows), np.arange(rows.num_rows))))
        found = {build.key_name(i): _key(rows, m.there, m.there_type, m) for i, m in enumerate(matches)}
        built = index.BuildTable.index(pa.table(batches.overlay(rows, found)), list(found))
        return cls(rows.take(pa.array(built.order)), built.starts, built, matches)

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.bounds) - 1

    def of_records(self, records: pa.RecordBatch) -> np.ndarray:
        """The number of each record's group; the number of groups if it has none."""
        keys = [_key(records, m.here, m.here_type, m) for m in self.matches]
        found = self.table.find(records.num_rows, keys)
        return np.where(found.counts > 0, np.searchsorted(self.bounds[:-1], found.starts), self.count)

    def frames(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of each group's rows. A missing group is empty."""
        begins, ends = np.append(self.bounds[:-1], 0), np.append(self.bounds[1:], 0)
        return begins[numbers], ends[numbers]

    def results(self, calls: Iterable[Call], evaluator: Evaluator) -> pa.RecordBatch:
        """The results of calls for each group, and last for no group."""
        found: dict[str, pa.Array] = {}
        for call in calls:
            nothing = pairs.nothing(call)
            failures = pa.nulls(1, pa.string())
            if call.is_by_position:
                found[call.column] = pa.nulls(self.count + 1, nothing.type)
                continue
            parts = list(self._parts(call, evaluator))
            found[call.column] = pa.concat_arrays([*(values_ for values_, _ in parts), nothing])
            found[call.failure] = pa.concat_arrays([*(problems for _, problems in parts), failures])
        return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))

    def _parts(self, call: Call, evaluator: Evaluator) -> Iterable[tuple[pa.Array, pa.Array]]:
        """Values and failures of groups, for a limited number of rows at a time."""
        function = choice.begin(call)
        begun = np.zeros(self.frame.num_rows, dtype=bool)
        begun[self.bounds[:-1]] = True
        last = self.bounds[1:] - 1
        size = evaluator.tuning.strip_rows
        for start in range(0, self.frame.num_rows, size):
            rows = self.frame.slice(start, size)
            starts = begun[start : start + rows.num_rows]
            ended = last[(last >= start) & (last < start + rows.num_rows)] - start
            result = function.ended(
                SortedBatch(rows, starts, starts, rows.num_rows), evaluator.given(call, rows), ended
            )
            failures = pa.nulls(len(ended), pa.string()) if result.failures is None else result.failures
            yield result.values, failures


def _key(rows: pa.RecordBatch, name: str, static: types.Type, match: Match) -> pa.Array:
    """A column in the type in which both sides are compared."""
    return build.comparable(rows.column(name), static, build.meeting_type(match.here_type, match.there_type))


def materialized_rows(context: Context, rows: Rows, what: str, node: str) -> pa.Table:
    """All rows of a need that an earlier job materialized, held in memory until the task ends.

    Args:
        context: the task.
        rows: the need.
        what: the subject of the message if they do not fit.
        node: the node that needs them.

    Raises:
        ResourcesExhausted: the rows and their groups need too much of the task's memory (E310).
    """
    table = context.files.materialized(rows)
    share = context.memory_pool.share
    needed = 2 * table.nbytes
    if needed > share - share // _LEFT:
        raise spill.ResourcesExhausted(
            "E310",
            f"{what} need {needed} bytes at once, memory.limit leaves {share} to each task; raise memory.limit, use "
            "fewer threads, or combine instead",
            node,
        )
    context.memory_pool.hold(needed)
    return table


def with_results(
    groups: Groups,
    known: pa.RecordBatch,
    calls: Sequence[Call],
    rows: pa.RecordBatch,
    evaluator: Evaluator,
    own_evaluator: Evaluator,
) -> pa.RecordBatch:
    """Records with the results of functions for their groups.

    Args:
        groups: all groups.
        known: the results of calls that depend on a group alone.
        calls: all calls, in the order in which they are computed.
        rows: the records.
        evaluator: runs the programs of calls on rows of groups.
        own_evaluator: runs them on the records, which have other system values.
    """
    numbers = groups.of_records(rows)
    taken = known.take(pa.array(numbers))
    begins, ends = groups.frames(numbers)
    for call in calls:
        if call.own and not call.is_by_position:
            own = pairs.own_values(call, own_evaluator, rows)
            result = pairs.results(call, evaluator, own, groups.frame, begins, ends)
            columns = {call.column: result.values}
            if result.failures is not None:
                columns[call.failure] = result.failures
        else:
            names = (call.column, call.failure)
            columns = {name: taken.column(name) for name in names if name in taken.schema.names}
        rows = batches.overlay(rows, columns)
    return rows
