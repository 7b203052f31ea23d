"""Rows of aggregates that failed and retract nothing: as long as no more records are excluded, they are suppressed.

A suppressed row counts as never made. Where rows of aggregates reach nodes at which others depend on them, a failed row
is left out where it is made, so that it is in no other aggregate, match or frame. When more records are excluded, all
rows are made again: they may be others now.
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
        are_outdated: whether all of them are to be made again, once the retracted records are found.
    """

    folder: str
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rejected: pa.Table = field(default_factory=REJECTED.empty_table)
    entries: list[PassEntries] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    are_outdated: bool = False
    #: The groups of rows that failed where their keys were not at hand, in order. A row never changes its groups.
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
        """Take in the groups of rows; those without any are of none."""
        self._known = ascending.united(self._known, sought)
        found = keyed.tables(*_GROUPS.names)
        self._groups = ordered.once(self.folder, _GROUPS, found, _GROUPS.names, before=self._groups)

    def with_groups(self, failures: Facts) -> Facts:
        """The failures; rows that failed without a known key get the groups that were found for them."""
        mine = failures.where("lacks_key", "aggregated", are=_are_rows_without_key)
        if not mine.any():
            return failures
        rest = failures.where("lacks_key", "aggregated", are=lambda table: ~_are_rows_without_key(table))
        return facts.together(rest, mine.each(_with_key), mine.each(self._with_groups))

    def _with_groups(self, mine: pa.Table) -> pa.Table:
        """Rows once for each group that is known of them."""
        rows, known = mine.column("aggregated").to_numpy(), self._groups.column("aggregated").to_numpy()
        at, of = ordered.rows_of(known, rows)
        place = mine.schema.get_field_index("group")
        found = self._groups.column("group").take(pa.array(at))
        return _with_key(mine.take(pa.array(of)).set_column(place, mine.schema.field(place), found))


def _with_key(mine: pa.Table) -> pa.Table:
    """Failures of which nothing is to be searched for."""
    place = mine.schema.get_field_index("lacks_key")
    nothing = np.zeros(mine.num_rows, dtype=np.int8)
    return mine.set_column(place, mine.schema.field(place), pa.array(nothing)).combine_chunks()


def _are_rows_without_key(table: pa.Table) -> np.ndarray:
    """A mask of the aggregate rows that failed where their keys were not known."""
    found: np.ndarray = facts.lacks_key(table) & (table.column("aggregated").to_numpy() != NO_ROW)
    return found
