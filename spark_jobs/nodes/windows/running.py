"""Computes all calls of a transform over the sorted batches of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.formats.typed import record_sizes
from spark_jobs.nodes import memory, spill
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.windows import pairs
from spark_jobs.nodes.windows.kernels import choice
from spark_jobs.nodes.windows.kernels.positions import OffsetByRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.nodes.windows.arguments import Evaluator
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.kernels.function import Function, Results
    from spark_jobs.nodes.windows.rows import SortedBatch


#: The bytes of a value in an array under construction, besides the value itself: its place and its origin.
_PLACES_BYTES = 24
#: The least number of bytes that a value takes.
LEAST_BYTES = float(_PLACES_BYTES + 8)
#: The length of arrays of dynamic values is known only as the length of their text.
_LENGTHS = {True: pc.list_value_length, False: pc.binary_length}


def value_bytes(column: pa.Array) -> float:
    """The bytes that a value of this column takes in an array under construction."""
    return _PLACES_BYTES + column.nbytes / max(len(column), 1)


def array_bytes(arrays: pa.Array) -> np.ndarray:
    """The bytes of each array."""
    is_list = pa.types.is_list(arrays.type)
    lengths = pc.fill_null(_LENGTHS[is_list](arrays), 0).to_numpy(zero_copy_only=False).astype(np.float64)
    found: np.ndarray = lengths * (value_bytes(arrays.flatten()) if is_list else 1.0)
    return found


def runs(sizes: np.ndarray, share: int) -> Iterator[tuple[int, int]]:
    """Runs of rows whose arrays are built at once: the first row and the number of rows of each.

    Args:
        sizes: the bytes of each row's arrays.
        share: the memory of the task, in bytes.
    """
    before = np.concatenate([[0.0], np.cumsum(sizes)])
    most = memory.step_bytes(share)
    start = 0
    while start < len(sizes):
        end = int(np.searchsorted(before, before[start] + most, side="right")) - 1
        end = min(max(end, start + 1), len(sizes))
        yield start, end - start
        start = end


def check(call: Call, size: float, share: int, node: str) -> None:
    """Check that the rows that are needed at once fit into memory. Raises `ResourcesExhausted` (E310)."""
    if size > (most := memory.record_bytes(share)):
        raise spill.ResourcesExhausted(
            "E310",
            f"the arrays of `{call.text}` need {int(size)} bytes at once, more than {most}, a third of what "
            "memory.limit leaves to each task; each row has one of all rows before it: raise memory.limit, use fewer "
            "threads, group by more fields, or collect in an aggregate",
            node,
        )


def is_wide(column: types.Type) -> bool:
    """True if values of a type may have any length."""
    kind = values.arrow_type(column)
    return pa.types.is_string(kind) or pa.types.is_list(kind) or pa.types.is_struct(kind)


class Running:
    """Computes calls whose frame goes from the first row of a partition to the row itself.

    Args:
        calls: the calls in the order in which they are computed. A call may read results of earlier ones.
        evaluator: runs their programs.
        node: the node of the calls.
        share: the memory of the task, in bytes.
    """

    def __init__(self, calls: Sequence[Call], evaluator: Evaluator, node: str, share: int) -> None:
        self._functions: list[tuple[Call, Function | None]] = [
            (call, None if call.own else choice.begin(call)) for call in calls
        ]
        self._evaluator = evaluator
        self._node = node
        self._share = share
        self._giving = [(call, each) for call, each in self._functions if each is not None and call.gathers]
        self._repeating = [
            (call, each)
            for call, each in self._functions
            if each is not None and not call.gathers and is_wide(call.type)
        ]
        self._is_whole = any(call.needs_partition for call in calls)
        self._following = max((call.following for call in calls), default=0)

    def all_columns(self, batch: SortedBatch) -> Iterator[pa.RecordBatch]:
        """The rows of a batch with the results of the calls, as many at a time as fit the memory.

        Raises:
            ResourcesExhausted: the rows that are needed at once do not fit (E310).
        """
        widths = self._widths(batch)
        if not self._giving and sum(float(each.sum()) for _, each in widths) <= memory.record_bytes(self._share):
            yield self.columns(batch)
            return
        # If partitions must be whole, each is pushed as one batch.
        firsts = np.flatnonzero(batch.starts[: batch.count]) if self._is_whole else batch.places
        sizes = np.zeros(len(firsts))
        for call, each in widths:
            found = np.add.reduceat(each, firsts)
            if self._is_whole:
                self._check_values(call, float(found.max()))
            sizes += found
        for call, function in self._giving:
            found = np.add.reduceat(self._sizes(call, function, batch), firsts)
            check(call, float(found.max()), self._share, self._node)
            sizes += found
        ends = np.append(firsts, batch.count)
        for start, count in runs(sizes, self._share):
            first, end = int(ends[start]), int(ends[start + count])
            yield self.columns(batch.part(first, end - first, self._following))

    def _widths(self, batch: SortedBatch) -> list[tuple[Call, np.ndarray]]:
        """The bytes of each row's results from calls that repeat values."""
        found: list[tuple[Call, np.ndarray]] = []
        here = batch.rows.slice(0, batch.count)
        for call, function in self._repeating:
            if call.reads_results:
                # The result is one of the values that other calls return.
                largest = max((int(each.max(initial=0)) for _, each in found), default=0)
                found.append((call, np.full(batch.count, largest)))
                continue
            given = self._evaluator.given(call, batch.rows if call.following else here)
            offsets = None
            if isinstance(function, OffsetByRow):
                assert not isinstance(call.offset, int)
                offsets = self._evaluator.value(call.offset, here)
            sizes = record_sizes.of([given.values], len(given.values))[: batch.count]
            if (widths := function.widths(batch, sizes, offsets)) is not None:
                found.append((call, widths))
        return found

    def _check_values(self, call: Call, size: float) -> None:
        if size > (most := memory.record_bytes(self._share)):
            raise spill.ResourcesExhausted(
                "E310",
                f"what `{call.text}` gives to the rows of a partition needs {int(size)} bytes at once, more than "
                f"{most}, a third of what memory.limit leaves to each task; raise memory.limit, use fewer "
                "threads, or group by more fields",
                self._node,
            )

    def _sizes(self, call: Call, function: Function, batch: SortedBatch) -> np.ndarray:
        """The bytes of a call's array for each row of a batch."""
        here = batch.rows.slice(0, batch.count)
        given = None if call.reads_results else self._evaluator.given(call, here)
        each = LEAST_BYTES if given is None else value_bytes(given.values)
        found: np.ndarray = function.lengths(batch, given) * each
        return found

    def columns(self, batch: SortedBatch) -> pa.RecordBatch:
        """The rows of a batch with the results of the calls."""
        rows = batch.rows
        for call, function in self._functions:
            found = self._results(call, function, batch, rows)
            added = {call.column: _long(found.values, rows.num_rows)}
            if found.failures is not None:
                added[call.failure] = _long(found.failures, rows.num_rows)
            rows = batches.overlay(rows, added)
        return rows.slice(0, batch.count)

    def _results(self, call: Call, function: Function | None, batch: SortedBatch, rows: pa.RecordBatch) -> Results:
        here = rows.slice(0, batch.count)
        if function is None:
            own = pairs.own_values(call, self._evaluator, here)
            return pairs.results(call, self._evaluator, own, here, batch.begins, batch.places + 1)
        given = self._evaluator.given(call, rows if call.following else here)
        if isinstance(function, OffsetByRow):
            assert not isinstance(call.offset, int)
            return function.reached(batch, given, self._evaluator.value(call.offset, here))
        return function.results(batch, given)


def _long(column: pa.Array, count: int) -> pa.Array:
    """The column, with nulls for the rows that are only looked ahead to."""
    more = count - len(column)
    return pa.concat_arrays([column, pa.nulls(more, column.type)]) if more else column
