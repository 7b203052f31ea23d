"""Rows into groups: one Arrow grouping for all accumulators of a node, over raw rows or over kept states."""

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
    """About how many groups there are to a record, rather too many, from the keys of a sample of `rows` records.

    What came once and twice in the sample tells how many did not come at all (Chao's estimate), with half as much for
    what that does not see.
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
        keys: names of the key columns in `columns`; none makes a single group.
        columns: keys, `$at`, and the columns of which a group keeps its first record's value; in record order, as far
            as records of one key go.
        firsts: the names of those last ones. Where a group comes from is told by its first row that is of a record:
            that of a global aggregate may be of none.
        states: what is grouped otherwise.
        ends: for each row the place of the last of its records, where rows are of several and stand in the order of
            their first ones; None where the last row has the last record.

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
    """The lists of each group's member rows, one after another."""
    taken = lists.take(members.flatten())
    lengths = pc.list_value_length(taken).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    assert isinstance(members, pa.ListArray)
    offsets = ends[members.offsets.to_numpy() - members.offsets[0].as_py()]
    return pa.ListArray.from_arrays(pa.array(offsets), taken.flatten())
