"""Finds groups that have more records than the limit allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.correlation import ascending, findings, ordered
from spark_jobs.execute.correlation.facts import SCHEMA
from spark_jobs.execute.correlation.state import OVERSIZED, RECORDS
from spark_jobs.nodes.records.identity import KEY_BUCKETS, SIZE_BUCKETS, record_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.execute.correlation.facts import Facts
    from spark_jobs.execute.correlation.rejections import Rejections

_CAME = ("group", "record", "split", "row", "aggregated", "why")
_IS_ROW = pa.field("is_row", pa.int8())
_NAMED = pa.schema([*(SCHEMA.field(name) for name in _CAME), _IS_ROW])
#: The order of arrivals at outputs: by place, records before rows that begin with them, and these by their outputs.
_PLACE = ("split", "row", "is_row", "aggregated")


def large_buckets(counted: Facts, rejections: Rejections, most: int) -> np.ndarray:
    """Buckets whose groups may be too large: buckets reported by tasks, and buckets in which many records failed."""
    parts = [table.column("group").to_numpy().astype(np.int64) for table in counted.tables("group")]
    failed = ordered.more_often_than(rejections.whole.column("group").to_numpy(), most)
    at, _ = ordered.rows_of(rejections.buckets.column("group").to_numpy(), failed)
    buckets = rejections.buckets.column("record").take(pa.array(at)).to_numpy() // (KEY_BUCKETS // SIZE_BUCKETS)
    return ascending.each_once(np.concatenate([*parts, buckets]))


@dataclass(frozen=True)
class TooLarge:
    """Groups that are too large.

    Args:
        groups: their numbers, their first records at outputs, and the reasons.
        records: all their records, ascending.
        earliest: the split and row of the first record of the earliest group, and the reason.
    """

    groups: pa.Table
    records: np.ndarray
    earliest: tuple[int, int, str]


def too_large(came: Facts, failed: pa.Table, limit: int, folder: str) -> TooLarge | None:
    """The groups with too many records, at outputs and among the failed ones; None if there are none.

    Args:
        came: the records and rows at outputs whose groups may be too large.
        failed: pairs of groups over all sources and failed records.
        limit: the largest number of records in a group.
        folder: for spill files.
    """
    members = findings.pairs(came, ("group", "record"), failed, folder)
    groups = members.column("group").to_numpy()
    large = ordered.more_often_than(groups, limit)
    mine = came.where("group", are=lambda table: ascending.are_among(table.column("group").to_numpy(), large))
    first = ordered.once(folder, _NAMED, map(_placed, mine.tables(*_CAME)), ["group"], _PLACE)
    if not first.num_rows:
        return None
    numbers = first.column("group").to_numpy()
    counts = np.searchsorted(groups, numbers, "right") - np.searchsorted(groups, numbers, "left")
    said = f"is larger than max_group_buffer {limit}"
    names = first.column("why").to_pylist()
    whys = [f"group {name} of {count} records {said}" for name, count in zip(names, counts.tolist(), strict=True)]
    at, _ = ordered.rows_of(failed.column("group").to_numpy(), numbers)
    records = ordered.once(folder, RECORDS, _records(mine, failed.take(pa.array(at))), RECORDS.names)
    table = pa.table([numbers, first.column("record"), whys], schema=OVERSIZED)
    splits, rows = (first.column(name).to_numpy() for name in ("split", "row"))
    place = int(np.lexsort((rows, splits))[0])
    return TooLarge(table, records.column("record").to_numpy(), (int(splits[place]), int(rows[place]), whys[place]))


def _placed(came: pa.Table) -> pa.Table:
    is_row = came.column("record").to_numpy() != record_numbers(came.column("split"), came.column("row"))
    return came.append_column(_IS_ROW, pa.array(is_row.astype(np.int8)))


def _records(came: Facts, failed: pa.Table) -> Iterator[pa.Table]:
    for table in came.tables("split", "row"):
        found = record_numbers(table.column("split"), table.column("row"))
        yield pa.table([found[found >= 0]], schema=RECORDS)
    yield failed.select(RECORDS.names)
