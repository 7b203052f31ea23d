"""All calls of a transform over the strips of a stream: the columns that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.nodes.records import batches
from spark_jobs.nodes.windows import pairs
from spark_jobs.nodes.windows.kernels import choice
from spark_jobs.nodes.windows.kernels.positions import Reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.windows.arguments import Evaluator
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.kernels.function import Function, Results
    from spark_jobs.nodes.windows.strip import Strip


class Running:
    """The frame of each row goes from the first of its partition to the row itself (decision 22).

    Args:
        calls: in the order in which they are computed: one may read what others before it gave.
        evaluator: runs their programs.
    """

    def __init__(self, calls: Sequence[Call], evaluator: Evaluator) -> None:
        self._functions: list[tuple[Call, Function | None]] = [
            (call, None if call.own else choice.begin(call)) for call in calls
        ]
        self._evaluator = evaluator

    def columns(self, strip: Strip) -> pa.RecordBatch:
        """The rows of a strip with what the calls gave."""
        rows = strip.rows
        for call, function in self._functions:
            found = self._results(call, function, strip, rows)
            laid = {call.column: _long(found.values, rows.num_rows)}
            if found.failures is not None:
                laid[call.failure] = _long(found.failures, rows.num_rows)
            rows = batches.overlay(rows, laid)
        return rows.slice(0, strip.count)

    def _results(self, call: Call, function: Function | None, strip: Strip, rows: pa.RecordBatch) -> Results:
        here = rows.slice(0, strip.count)
        if function is None:
            return pairs.results(call, self._evaluator, here, here, strip.begins, strip.places + 1)
        given = self._evaluator.given(call, rows if call.ahead else here)
        if isinstance(function, Reach):
            assert not isinstance(call.offset, int)
            return function.reached(strip, given, self._evaluator.value(call.offset, here))
        return function.results(strip, given)


def _long(column: pa.Array, count: int) -> pa.Array:
    """The column, with nulls for the rows that are only looked at."""
    more = count - len(column)
    return pa.concat_arrays([column, pa.nulls(more, column.type)]) if more else column
