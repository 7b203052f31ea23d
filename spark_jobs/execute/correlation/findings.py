"""Builds sorted tables of groups and records from the facts of passes with correlation keys.

Each function takes facts a table at a time. `folder` is used for tables that are long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execute.correlation import ascending, facts, ordered, stored
from spark_jobs.execute.correlation.facts import SCHEMA, FactKind
from spark_jobs.execute.correlation.state import NUMBERS, RECORDS, REJECTED
from spark_jobs.nodes.records import identity
from spark_jobs.nodes.records.identity import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_jobs.execute.correlation.facts import Facts
    from spark_jobs.execute.report import LogLine

#: Pairs of a group and a record.
PAIRS = pa.schema([("group", pa.uint64()), ("record", pa.int64())])
#: The columns needed to find the first failure of each group, and that failure's columns.
_FIRST = ("group", "source", "split", "row", "kind", "node", "at", "why")
#: Failures of the same record are ordered by the node's position in the plan, then by their position at the node.
_PLACE = ("source", "split", "row", "node", "at")
#: The columns of a failure at a node without its key; another node supplies the key.
_SAID = ("node", "at", "why")
_OF_RECORDS = pa.schema([SCHEMA.field(name) for name in ("record", *_SAID)])
#: The number of groups whose texts are composed at a time.
_AT_ONCE = 1 << 16


def with_keys(failed: Facts, keyed: Facts, folder: str) -> Facts:
    """Failures with the groups found for records without one. The first failure of a record gives the reason."""
    tables = failed.lacking_keys().tables(*_OF_RECORDS.names)
    said = ordered.once(folder, _OF_RECORDS, tables, ["record"], ["node", "at"])
    records = said.column("record").to_numpy()

    def as_failed(table: pa.Table) -> pa.Table:
        at = identity.sorted_index(table.column("record").to_numpy(), records)
        chosen = pa.array(at, mask=at < 0)
        for name in _SAID:
            place = SCHEMA.get_field_index(name)
            table = table.set_column(place, SCHEMA.field(name), said.column(name).take(chosen))
        return table

    return facts.together(failed.lacking_keys(lacking=False), keyed.each(as_failed))


def records(found: Facts, folder: str) -> pa.Table:
    """The failed records, ascending."""
    return _numbers(folder, RECORDS, (each[each >= 0] for each in _column(found, "record")))


def aggregated(failed: Facts, folder: str) -> np.ndarray:
    """The distinct rows of aggregates in some facts."""
    table = _numbers(folder, NUMBERS, (each[each != NO_ROW] for each in _column(failed, "aggregated")))
    found: np.ndarray = table.column("number").to_numpy()
    return found


def _column(found: Facts, name: str) -> Iterator[np.ndarray]:
    return (table.column(name).to_numpy() for table in found.tables(name))


def _numbers(folder: str, schema: pa.Schema, parts: Iterable[np.ndarray]) -> pa.Table:
    tables = (pa.table([part], schema=schema) for part in parts)
    return ordered.once(folder, schema, tables, schema.names)


@dataclass(frozen=True)
class Names:
    """Names that replace numbers in messages.

    Args:
        rows_before: the number of records of a split's file before the split, by the split's number.
        file_of: the file of a split, if its source has several files.
        nodes: the names of the nodes by their numbers.
    """

    rows_before: Mapping[int, int]
    file_of: Callable[[int], str]
    nodes: Sequence[str]


def rejected(found: Facts, names: Names, folder: str) -> pa.Table:
    """The rejected groups, each with its first failure in record order."""
    of_groups = found.where("group", are=lambda table: table.column("group").to_numpy() != identity.NO_GROUP)
    reduce = partial(ordered.first_of_each, keys=["group"], then=_PLACE)
    firsts = ordered.merged(ordered.runs(folder, of_groups.tables(*_FIRST), reduce), ["group"], reduce)
    tables = (_displayed(some, names) for first in firsts for some in stored.slices(first, _AT_ONCE))
    return stored.store_table(folder, REJECTED, tables)


def _displayed(first: pa.Table, names: Names) -> pa.Table:
    """Groups with their first failures in words."""
    splits, of = np.unique(first.column("split").to_numpy(), return_inverse=True)
    before = np.array([names.rows_before.get(int(split), 0) for split in splits], dtype=np.int64)
    files = pa.array([names.file_of(int(split)) for split in splits], pa.string()).take(pa.array(of))
    rows = before[of] + first.column("row").to_numpy() + 1
    number, why, source, kind, node = (
        first.column(name).combine_chunks() for name in ("group", "why", "source", "kind", "node")
    )
    # A row of an aggregate has the place of its first record, which may be valid.
    is_row, has_file = pc.equal(kind, FactKind.ROW_FAILURE), pc.not_equal(files, "")
    failed_at = pa.array(names.nodes, pa.string()).take(node)
    of_row = pc.binary_join_element_wise(" (an aggregated row, at '", failed_at, "'", "")
    in_file = pc.binary_join_element_wise(pc.if_else(is_row, "; in ", " (in "), files, "")
    row_texts = pa.array(rows).cast(pa.string())
    begin = pc.binary_join_element_wise("row ", row_texts, ": ", "")
    closing = pc.if_else(pc.or_(is_row, has_file), ")", "")
    end = pc.binary_join_element_wise(pc.if_else(is_row, of_row, ""), pc.if_else(has_file, in_file, ""), closing, "")
    texts = [begin.cast(why.type), why, end.cast(why.type)]
    whys = pc.binary_join_element_wise(*texts, pa.scalar("", why.type))
    return pa.table([number, whys, source], schema=REJECTED)


def merge_rejected(tables: Sequence[pa.Table], folder: str) -> pa.Table:
    """Merge rejected groups: each group once, with its first failure."""
    return ordered.united(folder, REJECTED, tables, ["group"])


def pairs(found: Facts, names: tuple[str, str], known: pa.Table, folder: str) -> pa.Table:
    """Add the distinct pairs of two columns of facts. Pairs without a group are left out."""

    def of(table: pa.Table) -> pa.Table:
        some = table.rename_columns(PAIRS.names).cast(PAIRS)
        is_one = some.column("group").to_numpy() != identity.NO_GROUP
        return some if is_one.all() else some.filter(pa.array(is_one))

    return ordered.once(folder, PAIRS, map(of, found.tables(*names)), PAIRS.names, before=known)


def lines_about(lines: Iterable[LogLine], records: np.ndarray, rows: np.ndarray) -> list[LogLine]:
    """The log lines about some records or rows of aggregates, both given by ascending numbers."""
    known = [*lines]  # few for each task, where records may be millions
    of, grouped = (np.array(each, dtype=np.int64) for each in ([x.record for x in known], [x.group for x in known]))
    are_about = ascending.are_among(of, records) | ascending.are_among(grouped, rows)
    return [known[place] for place in np.flatnonzero(are_about).tolist()]


def first_of_each(found: Facts, known: pa.Table, folder: str) -> pa.Table:
    """The first record of each group, among the known records and the records in facts."""
    return ordered.once(folder, PAIRS, found.tables(*PAIRS.names), ["group"], ["record"], before=known)
