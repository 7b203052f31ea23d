"""What an analytic window is when it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """A bound `analytic_window`.

    Args:
        group_by: the partition's columns, of the rows that the window ranges over.
        sort_by: the order in a partition: (column, descending, null order).
        source: the source whose rows the window ranges over; None for the node's own input.
        on: with `source`: the input's column and the source's column that must be equal.
        fields: the columns that window functions read.
    """

    group_by: tuple[str, ...]
    sort_by: tuple[tuple[str, bool, str], ...] = ()
    source: str | None = None
    on: tuple[str, str] | None = None
    fields: frozenset[str] = frozenset()
