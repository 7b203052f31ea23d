"""Evaluates calls that depend on the current record, such as a predicate that compares the frame with a let.

Each record is paired with each row of its frame, in batches of pairs: frame after frame, each from its beginning. The
number of pairs is quadratic in a partition's rows, but there is never a Python loop over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import tree_walk, values
from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes.windows.kernels import choice
from spark_jobs.nodes.windows.kernels.function import Results
from spark_jobs.nodes.windows.rows import SortedBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.nodes.windows.arguments import Evaluator
    from spark_jobs.nodes.windows.call import Call


def own_values(call: Call, evaluator: Evaluator, records: pa.RecordBatch) -> dict[str, pa.Array]:
    """The values of the record itself that a call reads, one for each record."""
    return {name: evaluator.value(program, records).values for name, program in call.own}


def results(
    call: Call,
    evaluator: Evaluator,
    own: Mapping[str, pa.Array],
    frame: pa.RecordBatch,
    begins: np.ndarray,
    ends: np.ndarray,
) -> Results:
    """The results of a call for records, each with a frame.

    Args:
        call: the call.
        evaluator: runs its programs on rows of frames.
        own: the values of the records themselves that it reads.
        frame: the rows of all frames.
        begins: the first row of each record's frame.
        ends: the end of each record's frame.
    """
    read = _read(call, frame)
    function = choice.begin(call)
    found: list[pa.Array] = []
    problems: list[pa.Array] = []
    for record, row, starts, last in _pairs(begins, ends, evaluator.tuning.frame_pairs):
        added = [column.take(pa.array(record)) for column in own.values()]
        columns = [frame.column(name).take(pa.array(row)) for name in read]
        rows = pa.RecordBatch.from_arrays([*columns, *added], names=[*read, *own])
        result = function.ended(SortedBatch(rows, starts, starts, len(row)), evaluator.given(call, rows), last)
        found.append(result.values)
        problems.append(pa.nulls(len(last), pa.string()) if result.failures is None else result.failures)
    return _scattered(call, ends > begins, found, problems)


def _read(call: Call, frame: pa.RecordBatch) -> list[str]:
    """The columns of the frame that a call reads; at least one, so that the batch has rows."""
    known = {call.field} if call.argument is None else set(tree_walk.columns_of(call.argument))
    # The system values of a row are columns, too.
    return [name for name in frame.schema.names if name in known or name.startswith("$")] or frame.schema.names[:1]


def _pairs(
    begins: np.ndarray, ends: np.ndarray, most: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Pairs, `most` at a time: records, rows of their frames, a mask of new records, and the last pairs of records."""
    sizes = ends - begins
    after = np.cumsum(sizes)
    total = int(after[-1]) if len(after) else 0
    for start in range(0, total, most):
        pair = np.arange(start, min(start + most, total))
        record = np.searchsorted(after, pair, side="right")
        position = pair - (after - sizes)[record]
        yield record, begins[record] + position, position == 0, np.flatnonzero(pair == after[record] - 1)


def _scattered(call: Call, has_frame: np.ndarray, found: list[pa.Array], problems: list[pa.Array]) -> Results:
    """Scatter the results of records with a frame. Other records get the result of an empty frame."""
    empty = nothing(call)
    values_ = pa.concat_arrays([empty, *found])
    failures = pa.concat_arrays([pa.nulls(1, pa.string()), *problems])
    rows = pa.array(np.where(has_frame, np.cumsum(has_frame), 0))
    texts = failures.take(rows)
    return Results(values_.take(rows), texts if texts.null_count < len(texts) else None)


def nothing(call: Call) -> pa.Array:
    """The result of a function for no rows, as an array of one value."""
    return values.to_arrow([declare.windows()[call.function].empty], call.type)
