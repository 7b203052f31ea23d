"""What dead letters say of correlation groups, and in which of a run's passes they count."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.execute.tasks import facts
from spark_jobs.nodes.records import groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


class Holds(IntEnum):
    """In which passes an entry counts, where passes are repeated."""

    #: In the last: what failed is no record, and fails again unless it has become another.
    IN_LAST = 0
    #: From the pass on that found it: its record counts as never read from then on.
    FOR_GOOD = 1
    #: The same, once everything that is not downstream of a retractable aggregate is settled.
    BEHIND = 2
    #: No entry, but what a pass was to find: a record that is taken back out of an aggregate,
    TRACED = 3
    #: the first record of a group,
    FIRST = 4
    #: a bucket in which too many records may be of one group,
    SUSPECT = 5
    #: a record that came to an output, of a group in such a bucket.
    MEMBER = 6
    #: the groups of a record, or of a row, that failed where its key was not at hand.
    KEYED = 7
    #: An entry of a row of an aggregate that takes nothing back: it counts while the row does not count as made.
    ROW = 8


@dataclass(frozen=True)
class Holding:
    """Which entries of a pass count.

    Args:
        holds: those of these kinds,
        records: of records and what is beside them those of a file alone; None: all,
        rows: of rows of aggregates and what is beside them those of a file alone; None: all,
        nodes: and of these those of some nodes alone, as facts number them: what failed elsewhere was not made.
    """

    holds: tuple[int, ...]
    records: str | None = None
    rows: str | None = None
    nodes: tuple[int, ...] = ()

    def of(self, entries: pa.Table) -> np.ndarray:
        """Which of some entries those are."""
        holds = entries.column("holds").to_numpy()
        found: np.ndarray = np.isin(holds, self.holds)
        if self.records is not None:
            own, causing = (
                facts.record_numbers(entries.column(split), entries.column(row))
                for split, row in (("split", "row"), ("cause_split", "cause_row"))
            )
            failed = np.where(entries.column("cause_split").to_numpy() >= 0, causing, own)
            known = facts.stored(self.records, "record").to_numpy()
            found &= (holds != Holds.FOR_GOOD) | (groups.among(failed, known) >= 0)
        if self.rows is not None:
            own, causing = (entries.column(name).to_numpy() for name in ("group", "cause_group"))
            known = facts.stored(self.rows, "number").to_numpy()
            are_known = groups.among(np.where(causing != 0, causing, own), known) >= 0
            are_known &= np.isin(entries.column("node").to_numpy(), self.nodes)
            found &= (holds != Holds.ROW) | are_known
        return found


@dataclass(frozen=True)
class Marks:
    """What entries say of correlation groups.

    Args:
        holds: in which passes they count.
        groups: the number of the aggregate's group that each is; 0 for records.
        node: where they failed, as facts number nodes.
        keys: the correlation key, field by field.
        shown: the columns of those that are no records; None where there are none, or nobody wants them.
    """

    holds: pa.Array
    groups: pa.Array
    node: int
    keys: Sequence[pa.Array]
    shown: pa.RecordBatch | None = None
