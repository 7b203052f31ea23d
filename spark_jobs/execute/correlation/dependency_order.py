"""Chooses the failures of a pass that count at once: failures that no other failure of the pass can have caused.

A failing record counts as never read from now on. Without it, a total, a match or a frame may be valid, so it may have
caused other failures. A failure therefore waits for failures of records that it depends on, if these depend on fewer
others (`spark_jobs/plan/physical/correlation.py`). It also waits for such failures that depend on its own records,
because their results without it would depend on further failures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_jobs.execute.correlation.facts import FactKind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spark_jobs.execute.correlation.facts import Facts
    from spark_jobs.nodes.correlation import CorrelationPlan


class FailureGroup(NamedTuple):
    """Failures at one node, of records of one source, that count in the same passes: node and source by number."""

    node: int
    source: int
    kind: int


def groups_of(facts: Facts) -> list[FailureGroup]:
    """The groups of failures that occur in facts, in order."""
    found: set[FailureGroup] = set()
    for table in facts.tables(*FailureGroup._fields):
        columns = [table.column(name).to_numpy().astype(np.int64) for name in FailureGroup._fields]
        # A row without records has no source: its source number is negative.
        least = [int(column.min(initial=0)) for column in columns]
        codes = [column - low for column, low in zip(columns, least, strict=True)]
        sizes = [int(code.max(initial=0)) + 1 for code in codes]
        come = np.unravel_index(np.flatnonzero(np.bincount(np.ravel_multi_index(codes, sizes), minlength=1)), sizes)
        numbers = [(code + low).tolist() for code, low in zip(come, least, strict=True)]
        found |= {FailureGroup(*each) for each in zip(*numbers, strict=True)}
    return sorted(found)


def first(some: Collection[FailureGroup], plan: CorrelationPlan, sources: Sequence[str]) -> set[int]:
    """The nodes whose failures depend on no others, among nodes with failing records and rows.

    Args:
        some: the groups of failures.
        plan: the dependencies between records.
        sources: the names of the sources by their numbers.
    """
    nodes = list(plan.nodes.values())
    causes: dict[int, set[str]] = {}
    for where, of, kind in some:
        mine = nodes[where].sources if kind == FactKind.ROW_FAILURE else {sources[of]}
        causes.setdefault(where, set()).update(mine)
    waiting = {
        number
        for number, mine in enumerate(nodes)
        if any(nodes[other].depth < mine.depth and mine.depends_on & those for other, those in causes.items())
    }
    # Failing records may decide the failures at nodes that depend on fewer others. These nodes wait for them.
    while early := {
        where
        for where in causes.keys() - waiting
        if any(nodes[other].depth < nodes[where].depth and nodes[other].depends_on & causes[where] for other in waiting)
    }:
        waiting |= early
    return causes.keys() - waiting
