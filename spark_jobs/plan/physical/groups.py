"""Which correlation groups the rows of each node belong to, as tasks need to know it.

The rules are in `docs/semantics/correlation.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.nodes.records.columns import BOND, CORRELATION
from spark_jobs.nodes.terms.correlation import Bond, GroupPlan, Membership, Standing
from spark_jobs.plan import correlation
from spark_jobs.plan.correlation import Grouping
from spark_jobs.plan.physical import sway, upstream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.plan.correlation import NodeKeys
    from spark_jobs.plan.plan import Input, Plan, PlannedNode

    Kinds = tuple[types.Type, ...]
    _Groups = frozenset[tuple[tuple[str, ...], tuple[str, ...]]]


def of(plan: Plan) -> GroupPlan | None:
    """The groups of a plan; None where no source has a correlation key."""
    known = correlation.of(plan)
    if not known.is_active:
        return None
    standings: dict[str, Standing] = {}
    columns = dict.fromkeys(name for step in plan.sources.values() for name in step.column_names)
    for planned in plan.nodes:
        grouped = [name for name in _grouped_by(plan, known.nodes[planned.name]) if name not in columns]
        kinds = {
            name: types
            for name, types in _kinds(planned, plan.by_name).items()
            if name in columns or name in grouped or name in CORRELATION or name in BOND
        }
        standing = _standing(planned, known.nodes, kinds, standings)
        standings[planned.name] = replace(standing, grouped=tuple(name for name in grouped if name in kinds))
    for name, swayed in sway.of(plan, known).items():
        sources = frozenset(known.nodes[name].sources)
        standings[name] = replace(standings[name], depth=swayed.depth, sources=sources, swayed_by=swayed.sources)
    traced = _traced(plan, standings)
    standings = {name: replace(standing, is_traced=name in traced) for name, standing in standings.items()}
    meet = sway.rows_meet(plan, known)
    return GroupPlan(standings, known.fields, tuple(columns), known.policies, known.limit, rows_meet=meet)


def _grouped_by(plan: Plan, keys: NodeKeys) -> dict[str, None]:
    """The columns by which the rows of aggregates at a node were grouped."""
    return dict.fromkeys(name for node in keys.rows_of for name in upstream.step(plan.by_name[node]).groups_by or ())


def _traced(plan: Plan, standings: Mapping[str, Standing]) -> set[str]:
    """The nodes behind which rows are made of records of several groups."""
    found: set[str] = set()
    waiting = [name for name, standing in standings.items() if standing.mixes]
    while waiting:
        planned = plan.by_name[waiting.pop()]
        looked_at = planned.step.ranges_over if planned.step else None
        above = {
            *(edge.node for edge in planned.inputs),
            *upstream.awaited(planned),
            *([looked_at] if looked_at else []),
        }
        above -= found
        found |= above
        waiting += above
    return found


def _standing(
    planned: PlannedNode, nodes: Mapping[str, NodeKeys], kinds: Mapping[str, Kinds], above: Mapping[str, Standing]
) -> Standing:
    keys = nodes[planned.name]
    is_mixing = keys.grouping is Grouping.RELAXED
    if not planned.inputs:
        columns = tuple(CORRELATION.of(field) for field in keys.fields)
        own = [Membership((planned.name,), keys.fields, columns=columns)] if keys.fields else []
        return Standing(tuple(own), kinds, whole=frozenset([planned.name]))
    step, streams = upstream.step(planned), upstream.streams(planned)
    own = [] if is_mixing else list(_cut(streams, above, keys.fields))
    if step.groups_by is not None:
        own = [replace(each, bond=Bond.GROUPED) for each in own]
    if len(streams) > 1:
        own = [replace(each, shared=tuple(sorted({*each.shared, *keys.sources}))) for each in own]
    bonds = {(qualifier, column): name for name, qualifier, column in step.bonds}
    for edge in (edge for edge in planned.inputs if edge not in streams):
        own += _joined(above[edge.node].memberships, edge.qualifier, bonds)
    found = Standing(tuple(sorted(set(own))), kinds, is_mixing, bool(keys.behind), _whole(planned, above, nodes))
    return replace(found, are_rows_whole=_are_rows_whole(planned, above, nodes, _grouped(found)))


def _joined(
    memberships: Iterable[Membership], qualifier: str, bonds: Mapping[tuple[str, str], str]
) -> Iterator[Membership]:
    """What rows are of for the sake of a build side: by the columns that keep its keys."""
    for each in memberships:
        names = {field: bonds.get((qualifier, column)) for field, column in zip(each.fields, each.columns, strict=True)}
        if (left := each.cut([field for field, name in names.items() if name])) is not None:
            yield replace(left, bond=Bond.JOINED, columns=tuple(str(names[field]) for field in left.fields))


def _whole(planned: PlannedNode, above: Mapping[str, Standing], nodes: Mapping[str, NodeKeys]) -> frozenset[str]:
    """The sources whose records come to a node with their whole key, on each way that they come."""
    whole: set[str] = set()
    cut: set[str] = set()
    for edge in upstream.streams(planned):
        own = [each for each in above[edge.node].memberships if each.bond is Bond.OWN]
        for source in nodes[edge.node].records_of:
            is_whole = any(source in each.sources and each.fields == nodes[source].fields for each in own)
            (whole if is_whole else cut).add(source)
    return frozenset(whole - cut)


def _are_rows_whole(
    planned: PlannedNode, above: Mapping[str, Standing], nodes: Mapping[str, NodeKeys], left: _Groups
) -> bool:
    """Whether rows of aggregates come to a node with all keys that they had, keep them, and are not among others.

    What a node cuts off rows that it gives on is not known there of those that fail. Rows of several aggregates cannot
    be told apart by the groups that any of them are of.
    """
    for edge in planned.inputs:  # rows of build sides may fail as well
        made = [name for name in nodes[edge.node].rows_of if nodes[name].grouping is not Grouping.RELAXED]
        if any(len(made) > 1 or not _grouped(above[name]) == _grouped(above[edge.node]) == left for name in made):
            return False
    return True


def _grouped(standing: Standing) -> _Groups:
    """The groups by the keys of aggregates' rows that rows are of: their sources and fields."""
    return frozenset((each.sources, each.fields) for each in standing.memberships if each.bond is Bond.GROUPED)


def _kinds(planned: PlannedNode, nodes: Mapping[str, PlannedNode]) -> dict[str, Kinds]:
    """What columns hold in the rows that come to a node, and in those that leave it."""
    rows = [*planned.outputs.values(), *(nodes[edge.node].outputs[edge.port] for edge in planned.inputs)]
    found: dict[str, dict[types.Type, None]] = {}
    for row in rows:
        for column in row:
            found.setdefault(column.name, {})[column.type] = None
    return {name: tuple(kinds) for name, kinds in found.items()}


def _cut(edges: Sequence[Input], above: Mapping[str, Standing], fields: tuple[str, ...]) -> Iterator[Membership]:
    """The groups of some inputs by the fields that go on; with fewer fields, groups are larger."""
    for edge in edges:
        for each in above[edge.node].memberships:
            if (left := each.cut(fields)) is not None:
                yield left
