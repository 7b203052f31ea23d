"""Which of the failures of a pass count at once: those that no other failure of the pass can have caused.

What failed may have failed because of a record that counts as never read from now on: its total, its match, its frame
may be good without that one. So a failure waits for others where these are of records that it depends on, and where
these themselves depend on fewer (`spark_jobs/plan/physical/sway.py`). Nor does it count before such others that depend
on its own records: what these are without it would depend on what else fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_jobs.execute.dlq.marks import Holds

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spark_jobs.execute.correlation.noted import Facts
    from spark_jobs.nodes.terms.correlation import GroupPlan


class Kind(NamedTuple):
    """What failures have in common: the numbers of the node and of the source, and in which passes they count."""

    node: int
    source: int
    holds: int


def kinds(facts: Facts) -> list[Kind]:
    """Of which kinds there are facts, in order."""
    found: set[Kind] = set()
    for portion in facts.portions(*Kind._fields):
        columns = [portion.column(name).to_numpy().astype(np.int64) for name in Kind._fields]
        # A row of no records is of no source: its number is less than 0.
        least = [int(column.min(initial=0)) for column in columns]
        codes = [column - low for column, low in zip(columns, least, strict=True)]
        sizes = [int(code.max(initial=0)) + 1 for code in codes]
        come = np.unravel_index(np.flatnonzero(np.bincount(np.ravel_multi_index(codes, sizes), minlength=1)), sizes)
        numbers = [(code + low).tolist() for code, low in zip(come, least, strict=True)]
        found |= {Kind(*each) for each in zip(*numbers, strict=True)}
    return sorted(found)


def first(some: Collection[Kind], plan: GroupPlan, sources: Sequence[str]) -> set[int]:
    """The nodes whose failures wait for no others, of some failures of records and of rows.

    Args:
        some: the kinds of these.
        plan: what records depend on.
        sources: the names of the sources by their numbers.
    """
    standings = list(plan.standings.values())
    causes: dict[int, set[str]] = {}
    for where, of, held in some:
        mine = standings[where].sources if held == Holds.ROW else {sources[of]}
        causes.setdefault(where, set()).update(mine)
    waiting = {
        number
        for number, mine in enumerate(standings)
        if any(standings[other].depth < mine.depth and mine.swayed_by & those for other, those in causes.items())
    }
    # Records that fail say what fails at nodes that depend on fewer: not before it is settled there.
    while early := {
        where
        for where in causes.keys() - waiting
        if any(
            standings[other].depth < standings[where].depth and standings[other].swayed_by & causes[where]
            for other in waiting
        )
    }:
        waiting |= early
    return causes.keys() - waiting
