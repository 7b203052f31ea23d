"""Rows of aggregates that fail and take nothing back: as long as no more records die, they count as never made.

Where rows of aggregates come to nodes at which others depend on them, what fails is left out where it is made, so that
it is in no other aggregate, match or frame. When records die, all rows are made again: they may be others now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execute.correlation import ascending, findings
from spark_jobs.execute.tasks.facts import REJECTED

if TYPE_CHECKING:
    from spark_jobs.execute.letters import settled
    from spark_jobs.execute.tasks.report import LogLine

#: The groups of rows of aggregates.
_GROUPS = pa.schema([("aggregated", pa.int64()), ("group", pa.uint64())])


@dataclass
class FailedRows:
    """The rows that count as never made, and what is known of rows.

    Args:
        numbers: the rows, ascending.
        rejected: the groups that they reject.
        letters: their entries.
        forgets: whether all of them are to be made again, once what is taken back is found.
        lines: what was logged of them.
    """

    numbers: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rejected: pa.Table = field(default_factory=REJECTED.empty_table)
    letters: list[settled.Found] = field(default_factory=list)
    forgets: bool = False
    lines: list[LogLine] = field(default_factory=list)
    #: The groups of rows that failed where their keys were not at hand; what they are does not change.
    _groups: pa.Table = field(default_factory=_GROUPS.empty_table)
    _known: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def forget(self) -> None:
        """All rows are made again."""
        self.numbers, self.rejected, self.letters, self.lines = self.numbers[:0], REJECTED.empty_table(), [], []
        self.forgets = False

    def lacking(self, facts: pa.Table) -> np.ndarray:
        """The rows that failed where their keys were not at hand, and whose groups are not known yet."""
        keyless = facts.filter(_are_keyless_rows(facts))
        return ascending.without(keyless.column("aggregated").to_numpy(), self._known)

    def learn(self, sought: np.ndarray, keyed: pa.Table) -> None:
        """Take in the groups of rows; those without any are of none."""
        self._known = ascending.united(self._known, sought)
        found = pa.concat_tables([self._groups, keyed.select(_GROUPS.names)])
        self._groups = found.group_by(_GROUPS.names).aggregate([]).select(_GROUPS.names).combine_chunks()

    def with_groups(self, facts: pa.Table) -> pa.Table:
        """Failures, those of such rows with the groups that they are of."""
        is_mine = _are_keyless_rows(facts)
        mine = facts.filter(is_mine)
        if not mine.num_rows:
            return facts
        none = pa.repeat(pa.scalar(0, pa.int64()), mine.num_rows)
        mine = mine.set_column(mine.schema.get_field_index("bucket"), "bucket", none)
        joined = mine.drop_columns(["group"]).join(self._groups, "aggregated", join_type="inner")
        rest = facts.filter(pc.invert(is_mine))
        return pa.concat_tables([rest, mine, joined.select(facts.schema.names).cast(facts.schema)]).combine_chunks()


def _are_keyless_rows(facts: pa.Table) -> pa.ChunkedArray:
    """Which rows, not records, failed where their keys were not at hand."""
    found: pa.ChunkedArray = pc.and_(findings.are_keyless(facts), pc.not_equal(facts.column("aggregated"), 0))
    return found
