"""Which records say, by failing, what becomes of others: those that a node groups, joins, or looks around in.

A record that failed counts as never read. What failed because of it may be good without it, so failures are settled in
order of dependence, beginning with those that depend on no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.nodes.terms import shape
from spark_jobs.plan.correlation import Grouping
from spark_jobs.plan.physical import upstream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_jobs.plan.correlation import Correlation, NodeKeys
    from spark_jobs.plan.plan import Plan, PlannedNode


@dataclass(frozen=True)
class Sway:
    """What records at a node depend on.

    Args:
        depth: how often they do, one after another.
        sources: whose records they depend on.
        behind: the same of what leaves the node: the rows of an aggregate depend on one another.
        sources_behind: the same.
    """

    depth: int
    sources: frozenset[str]
    behind: int
    sources_behind: frozenset[str]


def of(plan: Plan, known: Correlation) -> dict[str, Sway]:
    """The records that others depend on, node by node."""
    found: dict[str, Sway] = {}
    before: dict[str, Sway] | None = None
    while found != before:  # a variable may be set by a node that stands behind its readers in the plan
        before = dict(found)
        for planned in plan.nodes:
            found[planned.name] = _at(planned, known.nodes, found)
    caused: dict[str, frozenset[str]] = {name: frozenset() for name in plan.sources}
    for name, sway in found.items():
        for source in known.nodes[name].sources:
            caused[source] |= sway.sources
    return {
        name: Sway(sway.depth, _closed(sway.sources, caused), sway.behind, sway.sources_behind)
        for name, sway in found.items()
    }


def rows_meet(plan: Plan, known: Correlation) -> bool:
    """Whether rows of aggregates that take nothing back come to where others depend on them.

    The record of a build side does on the row that drives a combine: it has an entry where they fail together.
    """
    for planned in plan.nodes:
        met = _met(planned)
        streams = upstream.streams(planned) if met or _groups(planned) else []
        for name in (*met, *_setting(planned), *(edge.node for edge in streams)):
            made_of = known.nodes[name].rows_of
            if any(known.nodes[each].grouping is not Grouping.RELAXED for each in made_of):
                return True
    return False


def _at(planned: PlannedNode, nodes: Mapping[str, NodeKeys], above: Mapping[str, Sway]) -> Sway:
    setting = _setting(planned)
    before = [above[name] for name in (*(edge.node for edge in planned.inputs), *setting) if name in above]
    depth = max((each.behind for each in before), default=0)
    sources = frozenset().union(*(each.sources_behind for each in before))
    if met := [*_met(planned), *setting]:
        depth += 1
        sources |= _sources(met, nodes)
    if planned.step is not None and planned.step.ranges_over is not None:
        depth = max(depth, 1)
        sources |= {planned.step.ranges_over}
    if not _groups(planned):
        return Sway(depth, sources, depth, sources)
    return Sway(depth, sources, depth + 1, sources | _sources([edge.node for edge in upstream.streams(planned)], nodes))


def _groups(planned: PlannedNode) -> bool:
    return planned.step is not None and planned.step.groups_by is not None


def _met(planned: PlannedNode) -> list[str]:
    """The inputs whose records each record that comes to a node may depend on."""
    if planned.step is None or not planned.inputs or _groups(planned):
        return []
    streams = upstream.streams(planned)
    if any(isinstance(phase, shape.ShufflePhase) for phase in planned.step.phases(1)):
        return [edge.node for edge in planned.inputs]
    return [edge.node for edge in planned.inputs if edge not in streams]


def _setting(planned: PlannedNode) -> list[str]:
    """The state nodes whose values a node reads: these follow from all their records."""
    return upstream.awaited(planned)


def _sources(names: Iterable[str], nodes: Mapping[str, NodeKeys]) -> frozenset[str]:
    return frozenset().union(*(nodes[name].sources for name in names))


def _closed(sources: frozenset[str], caused: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Some sources with those whose records say which of theirs are dead, and so on."""
    while True:
        more = sources.union(*(caused[source] for source in sources))
        if more == sources:
            return sources
        sources = more
