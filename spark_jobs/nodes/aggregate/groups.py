"""Groups rows: one Arrow grouping for all accumulators of a node, over raw rows or over stored states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import packed_sort
from spark_jobs.nodes.aggregate.accumulators import FIRST, LAST
from spark_jobs.nodes.records.columns import ORIGIN_NAMES
from spark_jobs.nodes.records.order import AT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.aggregate.accumulators import Grouped


def estimate(sample: pa.Table, rows: int) -> float:
    """Estimate the groups per record, rather too high, from the keys of a sample of `rows` records.

    Chao's estimator derives the number of unseen keys from the keys that the sample has once and twice. It is raised
    by half, because it underestimates.
    """
    times = sample.group_by(sample.schema.names, use_threads=False).aggregate([([], "count_all")]).column("count_all")
    counts = times.to_numpy()
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    hidden = 1.5 * once * once / (2 * max(twice, 1))
    most = len(counts) - once + once * rows / max(sample.num_rows, 1)
    return float(min(len(counts) + hidden, most) / rows)


def reduce(
    keys: Sequence[str],
    columns: dict[str, pa.Array],
    firsts: Sequence[str],
    states: Sequence[Grouped],
    ends: np.ndarray | None = None,
) -> pa.Table:
    """One row per distinct key, in order of first appearance.

    Args:
        keys: names of the key columns in `columns`; without any, all rows are a single group.
        columns: the keys, `$at`, and the columns of `firsts`. Rows with equal keys are in record order.
        firsts: the columns for which a group keeps the value of its first record. Its origin comes from the first row
            that stands for a record, because a row of a global aggregate may stand for none.
        states: the state columns and their grouping functions.
        ends: for each row the place of its last record, if rows stand for several records and are ordered by their
            first ones; None if the last row has the last record.

    Returns:
        A table of all names; equal keys are equal in Arrow's sense, null being a key like any other.
    """
    count = len(columns[AT])
    arrow = {f"state {i}": s for i, s in enumerate(states) if s.function not in (None, FIRST, LAST)}
    table = {name: columns[name] for name in keys} | {name: s.values for name, s in arrow.items()}
    by = list(keys)
    if not by:
        by = ["all"]
        table["all"] = pa.array(np.zeros(count, dtype=np.int8))
    table["row"] = pa.array(np.arange(count, dtype=np.int32))
    wanted = [("row", "min", None), *((name, s.function, s.options) for name, s in arrow.items())]
    if any(state.function == LAST for state in states):
        end, by_end = "row", np.arange(count)
        if ends is not None:
            end, by_end = "end", packed_sort.order(ends)
            table[end] = pa.array(np.argsort(by_end).astype(np.int32))
        wanted.append((end, "max", None))
    if any(state.function is None for state in states):
        wanted.append(("row", "list", None))
    are_of_none = _of_no_records(columns)
    if are_of_none.any():
        table["behind"] = pa.array(np.arange(count) + np.where(are_of_none, count, 0))
        wanted.append(("behind", "min", None))
    grouped = pa.table(table).group_by(by, use_threads=False).aggregate(wanted)
    result: dict[str, pa.Array | pa.ChunkedArray] = {name: grouped.column(name) for name in keys}
    # Taking values by their rows needs a tenth of the memory of Arrow's `first`, which keeps a string per group.
    result |= {name: columns[name].take(grouped.column("row_min")) for name in (AT, *firsts)}
    if are_of_none.any():
        row = pa.array(grouped.column("behind_min").to_numpy() % count)
        result |= {name: columns[name].take(row) for name in ORIGIN_NAMES}
    for i, state in enumerate(states):
        found: pa.Array | pa.ChunkedArray
        match state.function:
            case None:
                found = _joined(state.values, grouped.column("row_list").combine_chunks())
            case _ if state.function == FIRST:
                found = state.values.take(grouped.column("row_min"))
            case _ if state.function == LAST:
                found = state.values.take(pa.array(by_end[grouped.column(f"{end}_max").to_numpy()]))
            case function:
                found = grouped.column(f"state {i}_{function}")
        result[state.name] = found
    return pa.table(result)


def _of_no_records(columns: dict[str, pa.Array]) -> np.ndarray:
    """A mask of the rows that stand for no record; empty if rows come straight from a reader."""
    split = columns.get(ORIGIN_NAMES[1])
    return np.zeros(0, dtype=bool) if split is None else split.to_numpy() < 0


def _joined(lists: pa.Array, members: pa.Array) -> pa.ListArray:
    """The lists of each group's member rows, concatenated."""
    taken = lists.take(members.flatten())
    lengths = pc.list_value_length(taken).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    assert isinstance(members, pa.ListArray)
    offsets = ends[members.offsets.to_numpy() - members.offsets[0].as_py()]
    return pa.ListArray.from_arrays(pa.array(offsets), taken.flatten())
