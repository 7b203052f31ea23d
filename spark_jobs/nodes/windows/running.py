"""All calls of a transform over the strips of a stream: the columns that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes.records import batches
from spark_jobs.nodes.windows import arrays, pairs
from spark_jobs.nodes.windows.kernels import choice
from spark_jobs.nodes.windows.kernels.positions import Reach

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.nodes.windows.arguments import Evaluator
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.kernels.function import Function, Results
    from spark_jobs.nodes.windows.strip import Strip


class Running:
    """The frame of each row goes from the first of its partition to the row itself (decision 22).

    Args:
        calls: in the order in which they are computed: one may read what others before it gave.
        evaluator: runs their programs.
        node: whose calls they are.
        share: the memory of the task.
    """

    def __init__(self, calls: Sequence[Call], evaluator: Evaluator, node: str, share: int) -> None:
        self._functions: list[tuple[Call, Function | None]] = [
            (call, None if call.own else choice.begin(call)) for call in calls
        ]
        self._evaluator = evaluator
        self._node = node
        self._share = share
        self._giving = [(call, each) for call, each in self._functions if each is not None and each.gives_arrays]
        self._is_whole = any(call.needs_partition for call in calls)
        self._ahead = max((call.ahead for call in calls), default=0)

    def all_columns(self, strip: Strip) -> Iterator[pa.RecordBatch]:
        """The rows of a strip with what the calls gave, as many at a time as there is room for their arrays."""
        if not self._giving:
            yield self.columns(strip)
            return
        # Where partitions have to be whole, they are what is given on at once.
        firsts = np.flatnonzero(strip.starts[: strip.count]) if self._is_whole else strip.places
        sizes = np.zeros(len(firsts))
        for call, function in self._giving:
            found = np.add.reduceat(self._sizes(call, function, strip), firsts)
            arrays.check(call, float(found.max()), self._share, self._node)
            sizes += found
        ends = np.append(firsts, strip.count)
        for start, count in arrays.runs(sizes, self._share):
            first, end = int(ends[start]), int(ends[start + count])
            yield self.columns(strip.part(first, end - first, self._ahead))

    def _sizes(self, call: Call, function: Function, strip: Strip) -> np.ndarray:
        """What the arrays of a call take for each row of a strip."""
        here = strip.rows.slice(0, strip.count)
        given = None if call.reads_results else self._evaluator.given(call, here)
        each = arrays.LEAST_BYTES if given is None else arrays.value_bytes(given.values)
        found: np.ndarray = function.lengths(strip, given) * each
        return found

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
