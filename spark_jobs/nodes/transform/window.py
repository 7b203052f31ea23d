"""What an analytic window is when it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.cxl import types
    from spark_jobs.nodes.terms.sort import SortField
    from spark_jobs.nodes.windows.call import Match


@dataclass(frozen=True)
class Window:
    """A bound `analytic_window`.

    Args:
        group_by: the partition's columns, of the rows that the window ranges over.
        sort_by: the order in a partition.
        source: the source whose rows the window ranges over; None for the node's own input.
        matches: with `source`: the columns of the record and of the source that must be equal.
        fields: the columns that window functions read.
        spare: the columns that nothing reads but the window's fields and functions.
        types: those of the columns of the rows that the window ranges over.
    """

    group_by: tuple[str, ...]
    sort_by: tuple[SortField, ...] = ()
    source: str | None = None
    matches: tuple[Match, ...] = ()
    fields: frozenset[str] = frozenset()
    spare: frozenset[str] = frozenset()
    types: tuple[tuple[str, types.Type], ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """The columns that it reads of the rows that it ranges over."""
        sorts = {field.name for field in self.sort_by}
        return frozenset({*self.group_by, *sorts, *(match.there for match in self.matches)}) | self.fields
