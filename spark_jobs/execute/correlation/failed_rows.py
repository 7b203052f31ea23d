"""Rows of aggregates that fail and take nothing back: as long as no more records die, they count as never made.

Where rows of aggregates come to nodes at which others depend on them, what fails is left out where it is made, so that
it is in no other aggregate, match or frame. When records die, all rows are made again: they may be others now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.correlation import ascending, findings, noted, ordered
from spark_jobs.execute.tasks.facts import KEYLESS, REJECTED

if TYPE_CHECKING:
    from spark_jobs.execute.correlation.noted import Facts
    from spark_jobs.execute.dlq import final
    from spark_jobs.execute.tasks.report import LogLine

#: The groups of rows of aggregates.
_GROUPS = pa.schema([("aggregated", pa.int64()), ("group", pa.uint64())])


@dataclass
class FailedRows:
    """The rows that count as never made, and what is known of rows.

    Args:
        folder: for what is long.
        numbers: the rows, ascending.
        rejected: the groups that they reject.
        entries: their entries.
        forgets: whether all of them are to be made again, once what is taken back is found.
        lines: what was logged of them.
    """

    folder: str
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rejected: pa.Table = field(default_factory=REJECTED.empty_table)
    entries: list[final.PassEntries] = field(default_factory=list)
    forgets: bool = False
    lines: list[LogLine] = field(default_factory=list)
    #: The groups of rows that failed where their keys were not at hand, in order; what they are does not change.
    _groups: pa.Table = field(default_factory=_GROUPS.empty_table)
    _known: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def forget(self) -> None:
        """All rows are made again."""
        self.numbers, self.rejected, self.entries, self.lines = self.numbers[:0], REJECTED.empty_table(), [], []
        self.forgets = False

    def lacking(self, facts: Facts) -> np.ndarray:
        """The rows that failed where their keys were not at hand, and whose groups are not known yet."""
        keyless = facts.where("bucket", "aggregated", are=_are_keyless_rows)
        return ascending.without(findings.aggregated(keyless, self.folder), self._known)

    def learn(self, sought: np.ndarray, keyed: Facts) -> None:
        """Take in the groups of rows; those without any are of none."""
        self._known = ascending.united(self._known, sought)
        found = keyed.portions(*_GROUPS.names)
        self._groups = ordered.once(self.folder, _GROUPS, found, _GROUPS.names, before=self._groups)

    def with_groups(self, facts: Facts) -> Facts:
        """Failures, those of such rows with the groups that they are of."""
        mine = facts.where("bucket", "aggregated", are=_are_keyless_rows)
        if not mine.any():
            return facts
        rest = facts.where("bucket", "aggregated", are=lambda portion: ~_are_keyless_rows(portion))
        return noted.together(rest, mine.each(self._without_bucket), mine.each(self._with_groups))

    def _with_groups(self, mine: pa.Table) -> pa.Table:
        """Rows once for each group that is known of them."""
        rows, known = mine.column("aggregated").to_numpy(), self._groups.column("aggregated").to_numpy()
        at, of = ordered.rows_of(known, rows)
        place = mine.schema.get_field_index("group")
        found = self._groups.column("group").take(pa.array(at))
        return self._without_bucket(mine.take(pa.array(of)).set_column(place, mine.schema.field(place), found))

    def _without_bucket(self, mine: pa.Table) -> pa.Table:
        place = mine.schema.get_field_index("bucket")
        none = np.zeros(mine.num_rows, dtype=np.int64)
        return mine.set_column(place, mine.schema.field(place), pa.array(none)).combine_chunks()


def _are_keyless_rows(facts: pa.Table) -> np.ndarray:
    """Which rows, not records, failed where their keys were not at hand."""
    bucket, aggregated = (facts.column(name).to_numpy() for name in ("bucket", "aggregated"))
    found: np.ndarray = (bucket == KEYLESS) & (aggregated != 0)
    return found
