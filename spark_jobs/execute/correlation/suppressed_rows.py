"""Rows of aggregates that failed and retract nothing: as long as no more records are excluded, they are suppressed.

A suppressed row counts as never made. If rows of aggregates reach nodes at which records depend on others, a failed row
is left out where it is made, so that it contributes to no other aggregate, match or frame. When more records are
excluded, all rows are made again, because they may have changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.correlation import ascending, facts, findings, ordered
from spark_jobs.execute.correlation.state import REJECTED
from spark_jobs.nodes.records.identity import NO_ROW

if TYPE_CHECKING:
    from spark_jobs.execute.correlation.entries import PassEntries
    from spark_jobs.execute.correlation.facts import Facts
    from spark_jobs.execute.report import LogLine

#: The groups of rows of aggregates.
_GROUPS = pa.schema([("aggregated", pa.int64()), ("group", pa.uint64())])


@dataclass
class SuppressedRows:
    """The rows of aggregates that count as never made, and the known facts about rows.

    Args:
        folder: for tables that are long.
        rows: the rows, ascending.
        rejected: the groups that they reject.
        entries: their dead letters.
        lines: the log lines about them.
        are_outdated: all of them must be made again, after the search for the retracted records.
    """

    folder: str
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rejected: pa.Table = field(default_factory=REJECTED.empty_table)
    entries: list[PassEntries] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    are_outdated: bool = False
    #: The groups of rows that failed at nodes without their keys, sorted. The groups of a row never change.
    _groups: pa.Table = field(default_factory=_GROUPS.empty_table)
    #: The rows whose groups were searched for, ascending.
    _known: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def forget(self) -> None:
        """Forget all rows: they are made again."""
        self.rows, self.rejected, self.entries, self.lines = self.rows[:0], REJECTED.empty_table(), [], []
        self.are_outdated = False

    def lacking_groups(self, found: Facts) -> np.ndarray:
        """The rows that failed without a known key, and whose groups are still unknown."""
        lacking = found.where("lacks_key", "aggregated", are=_are_rows_without_key)
        return ascending.without(findings.aggregated(lacking, self.folder), self._known)

    def learn_groups(self, sought: np.ndarray, keyed: Facts) -> None:
        """Store the groups of rows. Rows that were not found belong to no group."""
        self._known = ascending.united(self._known, sought)
        found = keyed.tables(*_GROUPS.names)
        self._groups = ordered.once(self.folder, _GROUPS, found, _GROUPS.names, before=self._groups)

    def with_groups(self, failures: Facts) -> Facts:
        """The failures, with the groups that were found for rows that failed without a known key."""
        mine = failures.where("lacks_key", "aggregated", are=_are_rows_without_key)
        if not mine.any():
            return failures
        rest = failures.where("lacks_key", "aggregated", are=lambda table: ~_are_rows_without_key(table))
        return facts.together(rest, mine.each(_with_key), mine.each(self._with_groups))

    def _with_groups(self, mine: pa.Table) -> pa.Table:
        """A row for each known group of the failed rows."""
        rows, known = mine.column("aggregated").to_numpy(), self._groups.column("aggregated").to_numpy()
        at, of = ordered.rows_of(known, rows)
        place = mine.schema.get_field_index("group")
        found = self._groups.column("group").take(pa.array(at))
        return _with_key(mine.take(pa.array(of)).set_column(place, mine.schema.field(place), found))


def _with_key(mine: pa.Table) -> pa.Table:
    """Failures that need no search for a key."""
    place = mine.schema.get_field_index("lacks_key")
    nothing = np.zeros(mine.num_rows, dtype=np.int8)
    return mine.set_column(place, mine.schema.field(place), pa.array(nothing)).combine_chunks()


def _are_rows_without_key(table: pa.Table) -> np.ndarray:
    """A mask of the aggregate rows that failed at nodes without their keys."""
    found: np.ndarray = facts.lacks_key(table) & (table.column("aggregated").to_numpy() != NO_ROW)
    return found
