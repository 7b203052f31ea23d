"""What passes with correlation keys have found, as tables: groups and records, put together and put into order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execute.correlation import ascending
from spark_jobs.execute.letters.marks import Holds
from spark_jobs.execute.tasks import part_file
from spark_jobs.execute.tasks.facts import FACTS, KEYLESS, REJECTED, record_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_jobs.execute.tasks.report import LogLine

#: Groups and records of which something is known.
PAIRS = pa.schema([("group", pa.uint64()), ("record", pa.int64())])
#: Of so many groups words are put together at a time.
_AT_ONCE = 1 << 16


def facts(files: Sequence[str]) -> pa.Table:
    """The facts of all tasks of a pass; of their files some hundred are open at a time."""
    found = [FACTS.empty_table()]
    for first in range(0, len(files), part_file.MOST_OPEN):
        tables = [part_file.mapped(path).read_all() for path in files[first : first + part_file.MOST_OPEN]]
        found.append(pa.concat_tables(tables).combine_chunks())
    return pa.concat_tables(found)


def are_keyless(facts: pa.Table) -> pa.ChunkedArray:
    """Which records failed where their key was not at hand."""
    found: pa.ChunkedArray = pc.equal(facts.column("bucket"), KEYLESS)
    return found


def with_keys(failed: pa.Table, keyed: pa.Table) -> pa.Table:
    """Failures with the groups that were found for records which had none, each for the reason that is known."""
    is_keyless = are_keyless(failed)
    lacking = failed.filter(is_keyless).select(["record", "why"]).group_by("record").aggregate([("why", "min")])
    at = pc.index_in(keyed.column("record").combine_chunks(), lacking.column("record").combine_chunks())
    whys = lacking.column("why_min").take(at)
    place = keyed.schema.get_field_index("why")
    return pa.concat_tables([failed.filter(pc.invert(is_keyless)), keyed.set_column(place, "why", whys)])


def in_order(facts: pa.Table) -> np.ndarray:
    """What came to outputs by groups and places: records before rows that begin with them, these by their outputs."""
    columns = [facts.column(name).to_numpy() for name in ("aggregated", "record", "row", "split", "group")]
    output, record, row, split, group = columns
    is_row = record != record_numbers(facts.column("split"), facts.column("row"))
    found: np.ndarray = np.lexsort((output, is_row, row, split, group))
    return found


def aggregated(facts: pa.Table) -> np.ndarray:
    """The groups of aggregates that are named, each once."""
    found = facts.column("aggregated").to_numpy()
    return ascending.each_once(found[found != 0])


@dataclass(frozen=True)
class Names:
    """What people read in place of numbers.

    Args:
        rows_before: the records of a split's file before it, by the split's number.
        file_of: the file of a split, where its source has several.
        nodes: the names of the nodes by their numbers.
    """

    rows_before: Mapping[int, int]
    file_of: Callable[[int], str]
    nodes: Sequence[str]


def rejected(facts: pa.Table, names: Names) -> pa.Table:
    """The groups that facts reject, each with what comes first in the order of records."""
    order = np.lexsort([facts.column(name).to_numpy() for name in ("row", "split", "source", "group")])
    group = facts.column("group").to_numpy()[order]
    is_first = group != 0
    is_first[1:] &= group[1:] != group[:-1]
    first = pa.array(order[is_first])
    parts = [_told(facts.take(first.slice(at, _AT_ONCE)), names) for at in range(0, len(first), _AT_ONCE)]
    return pa.concat_tables([REJECTED.empty_table(), *parts])


def _told(first: pa.Table, names: Names) -> pa.Table:
    """Groups with what people read of their first failures."""
    splits, of = np.unique(first.column("split").to_numpy(), return_inverse=True)
    before = np.array([names.rows_before.get(int(split), 0) for split in splits], dtype=np.int64)
    files = pa.array([names.file_of(int(split)) for split in splits], pa.string()).take(pa.array(of))
    rows = before[of] + first.column("row").to_numpy() + 1
    number, why, source, holds, node = (
        first.column(name).combine_chunks() for name in ("group", "why", "source", "holds", "node")
    )
    # The row of an aggregate has the place of its first record, with which nothing may be wrong.
    is_row, has_file = pc.equal(holds, Holds.ROW), pc.not_equal(files, "")
    failed_at = pa.array(names.nodes, pa.string()).take(node)
    of_row = pc.binary_join_element_wise(" (an aggregated row, at '", failed_at, "'", "")
    in_file = pc.binary_join_element_wise(pc.if_else(is_row, "; in ", " (in "), files, "")
    row_texts = pa.array(rows).cast(pa.string())
    whys = pc.binary_join_element_wise(
        "row ", row_texts, ": ", why, pc.if_else(is_row, of_row, ""), pc.if_else(has_file, in_file, ""),
        pc.if_else(pc.or_(is_row, has_file), ")", ""), "",
    )  # fmt: skip
    return pa.table([number, whys, source], schema=REJECTED)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Rejected groups, each once, with what is said first of it."""
    whole = pa.concat_tables(tables).combine_chunks()
    _, first = np.unique(whole.column("group").to_numpy(), return_index=True)
    return whole.take(pa.array(first))


def distinct(tables: Sequence[pa.Table]) -> pa.Table:
    """Pairs of groups and records, each once; those without a group or a record are none."""
    whole = pa.concat_tables([table.cast(PAIRS) for table in tables])
    whole = whole.filter(pc.not_equal(whole.column("group"), pa.scalar(0, pa.uint64())))
    return whole.group_by(PAIRS.names).aggregate([]).select(PAIRS.names).combine_chunks()


def lines_about(lines: Iterable[LogLine], records: np.ndarray, rows: np.ndarray) -> list[LogLine]:
    """The log lines about some records, and about some rows of aggregates; the numbers of both ascend."""
    told = [*lines]  # few for each task, where records may be millions
    of, groups = (np.array(each, dtype=np.int64) for each in ([x.record for x in told], [x.group for x in told]))
    are_about = ascending.are_among(of, records) | ascending.are_among(groups, rows)
    return [told[place] for place in np.flatnonzero(are_about).tolist()]


def first_of_each(tables: Sequence[pa.Table]) -> pa.Table:
    """The first record of each group."""
    whole = pa.concat_tables([table.select(PAIRS.names) for table in tables]).sort_by(
        [("group", "ascending"), ("record", "ascending")]
    )
    _, first = np.unique(whole.column("group").to_numpy(), return_index=True)
    return whole.take(pa.array(first))
