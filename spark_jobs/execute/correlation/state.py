"""The initial state of each pass: its goal, and the findings of earlier passes.

The findings may be millions of numbers, so they are in files of sorted numbers. Tasks map and search these; neither
tasks nor the driver hold them in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute import part_file
from spark_jobs.nodes.records.identity import ROW_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A file of records, ascending.
RECORDS = pa.schema([("record", pa.int64())])
#: A file of rows of aggregates, or of buckets of groups, ascending.
NUMBERS = pa.schema([("number", pa.int64())])
#: A file of groups, ascending.
GROUPS = pa.schema([("group", pa.uint64())])
#: A file of rejected groups: their numbers, ascending, the first failure of each, and the source of that failure. The
#: texts together may need 64 bit offsets.
REJECTED = pa.schema([("group", pa.uint64()), ("why", pa.large_string()), ("source", pa.int32())])
#: A file of groups that have too many records.
OVERSIZED = pa.schema([("group", pa.uint64()), ("first", pa.int64()), ("why", pa.string())])


class Goal(StrEnum):
    """The goal of a pass."""

    #: Computes the outputs, and finds failures.
    COMPUTE = "compute"
    #: Finds the groups of aggregate rows that failed at nodes without their keys.
    ROW_KEYS = "row keys"
    #: Finds the groups of records that failed at nodes with only a part of their key.
    RECORD_KEYS = "record keys"
    #: Finds the records that contribute to failed rows of retractable aggregates.
    RETRACTED_RECORDS = "retracted records"
    #: Finds the first records of groups for the policy `primary`.
    FIRST_RECORDS = "first records"
    #: Finds the records of groups that may have too many.
    GROUP_MEMBERS = "group members"
    #: No further pass is needed: the last one had no new findings.
    DONE = "done"

    @property
    def is_search(self) -> bool:
        """True if the pass only finds one kind of fact and writes no outputs."""
        return self not in (Goal.COMPUTE, Goal.DONE)

    @property
    def ends_at_sources(self) -> bool:
        """True if sources alone can answer the search, so that they push no records."""
        return self in (Goal.RECORD_KEYS, Goal.FIRST_RECORDS)


@dataclass(frozen=True)
class PassState:
    """The initial state of a pass. Each path leads to a file of sorted numbers; None means that there are none.

    Args:
        goal: the goal of the pass.
        subject: the records, rows, groups or buckets that a search is about.
        excluded: the records that count as never read, because they failed or were retracted.
        retracted: the excluded records that were retracted and are the first of no group; set only in searches for
            first records.
        rejected: the rejected groups, by the policy that rejects them.
        failed_rows: the rows of aggregates that failed in the last pass and retract nothing.
        suppressed_rows: the rows of aggregates that count as never made, because they failed.
        oversized: the groups that have too many records, with their first records.
        number: the number of earlier passes.
        rounds: the number of earlier passes that changed the state.
        is_intermediate: another pass follows in any case, so that outputs at which nothing fails need not be written.
    """

    goal: Goal = Goal.COMPUTE
    subject: str | None = None
    excluded: str | None = None
    retracted: str | None = None
    rejected: Mapping[str, str] = field(default_factory=dict)
    failed_rows: str | None = None
    suppressed_rows: str | None = None
    oversized: str | None = None
    number: int = 0
    rounds: int = 0
    is_intermediate: bool = False

    @property
    def is_one_of_many(self) -> bool:
        """True if more passes are likely to follow, so that parsing the inputs for each of them would be too slow.

        A search for retracted records is followed by at least one pass without them.
        """
        return self.goal is Goal.RETRACTED_RECORDS or self.rounds > 1

    def sought(self, name: str) -> np.ndarray:
        """The numbers that a search looks for, ascending. `name` is their column in the file."""
        assert self.subject is not None, self.goal
        found: np.ndarray = column(self.subject, name).to_numpy()
        return found


@lru_cache(maxsize=64)
def column(path: str, name: str) -> pa.Array:
    """A column of a mapped file as one array."""
    found = part_file.mapped(path, is_whole=True).read_all().column(name)
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


def per_split(path: str | None) -> dict[int, int]:
    """The number of records of each split in a file, by the split's number."""
    if path is None:
        return {}
    records = column(path, "record").to_numpy()
    found: dict[int, int] = {}
    start = 0
    while start < len(records):
        split = int(records[start] >> ROW_BITS)
        end = int(np.searchsorted(records, (split + 1) << ROW_BITS))
        found[split], start = end - start, end
    return found
