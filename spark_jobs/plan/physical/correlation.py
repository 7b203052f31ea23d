"""The correlation groups of each node's rows, and the dependencies between failures, in the form that runs use.

The rules are in `docs/semantics/correlation.md`.

A record that failed counts as never read. Another record that failed because of it may be good without it: one of its
group in an aggregate, one that was joined to it, or one in its window. So failures count in order of dependence,
beginning with those that depend on no others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.nodes.correlation import CorrelationPlan, GroupKey, KeyOrigin, NodeCorrelation
from spark_jobs.nodes.records.columns import CORRELATION, INHERITED
from spark_jobs.nodes.terms import shape
from spark_jobs.plan import correlation
from spark_jobs.plan.correlation import Grouping
from spark_jobs.plan.physical import upstream
from spark_jobs.plan.plan import cached_on_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.plan.correlation import Correlation, NodeKeys
    from spark_jobs.plan.plan import Input, Plan, PlannedNode

    Kinds = tuple[types.Type, ...]
    _Groups = frozenset[tuple[tuple[str, ...], tuple[str, ...]]]


@cached_on_plan
def of(plan: Plan) -> CorrelationPlan | None:
    """The groups of a plan; None if no source has a correlation key."""
    known = correlation.of(plan)
    if not known.is_active:
        return None
    nodes: dict[str, NodeCorrelation] = {}
    columns = dict.fromkeys(name for step in plan.sources.values() for name in step.column_names)
    for planned in plan.nodes:
        grouped = [name for name in _grouped_by(plan, known.nodes[planned.name]) if name not in columns]
        kinds = {
            name: types
            for name, types in _kinds(planned, plan.by_name).items()
            if name in columns or name in grouped or name in CORRELATION or name in INHERITED
        }
        node = _at(planned, known.nodes, kinds, nodes)
        nodes[planned.name] = replace(node, grouped=tuple(name for name in grouped if name in kinds))
    for name, dependency in _dependencies(plan, known).items():
        sources = frozenset(known.nodes[name].sources)
        nodes[name] = replace(nodes[name], depth=dependency.depth, sources=sources, depends_on=dependency.sources)
    feeding = _feeding_mixed(plan, nodes)
    nodes = {name: replace(node, feeds_mixed=name in feeding) for name, node in nodes.items()}
    meet = _rows_meet(plan, known)
    return CorrelationPlan(nodes, known.fields, tuple(columns), known.policies, known.limit, rows_meet=meet)


# ---- the keys of rows
# ----------------------------------------------------------------------------------------------------------------------


def _grouped_by(plan: Plan, keys: NodeKeys) -> dict[str, None]:
    """The columns by which the rows of aggregates at a node were grouped."""
    return dict.fromkeys(
        name for node in keys.rows_of for name in upstream.step(plan.by_name[node]).record_properties.group_by or ()
    )


def _feeding_mixed(plan: Plan, nodes: Mapping[str, NodeCorrelation]) -> set[str]:
    """The nodes upstream of those whose rows are made of records of several groups."""
    found: set[str] = set()
    waiting = [name for name, node in nodes.items() if node.mixes]
    while waiting:
        planned = plan.by_name[waiting.pop()]
        looked_up = planned.step.record_properties.looked_up_nodes if planned.step else ()
        parents = {
            *(edge.node for edge in planned.inputs),
            *upstream.awaited(planned),
            *looked_up,
        }
        parents -= found
        found |= parents
        waiting += parents
    return found


def _at(
    planned: PlannedNode,
    known: Mapping[str, NodeKeys],
    kinds: Mapping[str, Kinds],
    correlations: Mapping[str, NodeCorrelation],
) -> NodeCorrelation:
    """Correlation at a node whose inputs are known."""
    mine = known[planned.name]
    is_mixing = mine.grouping is Grouping.RELAXED
    if planned.is_source:
        columns = tuple(CORRELATION.of(field) for field in mine.fields)
        own = [GroupKey((planned.name,), mine.fields, columns=columns)] if mine.fields else []
        return NodeCorrelation(tuple(own), kinds, whole=frozenset([planned.name]))
    step, streams = upstream.step(planned), upstream.streams(planned)
    keys = [] if is_mixing else list(_cut(streams, correlations, mine.fields))
    if step.record_properties.group_by is not None:
        keys = [replace(each, origin=KeyOrigin.AGGREGATE) for each in keys]
    if len(streams) > 1:
        keys = [replace(each, shared=tuple(sorted({*each.shared, *mine.sources}))) for each in keys]
    inherited = {(qualifier, column): name for name, qualifier, column in step.record_properties.inherited_keys}
    for edge in (edge for edge in planned.inputs if edge not in streams):
        keys += _joined(correlations[edge.node].keys, edge.qualifier, inherited)
    whole = _whole(planned, correlations, known)
    found = NodeCorrelation(tuple(sorted(set(keys))), kinds, is_mixing, bool(mine.retractable_upstream), whole)
    return replace(found, are_rows_whole=_are_rows_whole(planned, correlations, known, _grouped(found)))


def _joined(keys: Iterable[GroupKey], qualifier: str, inherited: Mapping[tuple[str, str], str]) -> Iterator[GroupKey]:
    """The keys that rows have from a build side, by the columns that keep them."""
    for each in keys:
        columns = zip(each.fields, each.columns, strict=True)
        names = {field: inherited.get((qualifier, column)) for field, column in columns}
        if (left := each.cut([field for field, name in names.items() if name])) is not None:
            yield replace(left, origin=KeyOrigin.JOINED, columns=tuple(str(names[field]) for field in left.fields))


def _whole(
    planned: PlannedNode, correlations: Mapping[str, NodeCorrelation], nodes: Mapping[str, NodeKeys]
) -> frozenset[str]:
    """The sources whose records come to a node with their whole key, on each way that they come."""
    whole: set[str] = set()
    cut: set[str] = set()
    for edge in upstream.streams(planned):
        own = [each for each in correlations[edge.node].keys if each.origin is KeyOrigin.RECORD]
        for source in nodes[edge.node].records_of:
            is_whole = any(source in each.sources and each.fields == nodes[source].fields for each in own)
            (whole if is_whole else cut).add(source)
    return frozenset(whole - cut)


def _are_rows_whole(
    planned: PlannedNode, correlations: Mapping[str, NodeCorrelation], nodes: Mapping[str, NodeKeys], left: _Groups
) -> bool:
    """True if rows of aggregates come to a node with all keys that they had, keep them, and are not among others.

    If a node drops keys of its output rows, they are unknown for rows that fail in it. Rows of several aggregates
    cannot be told apart by the groups of any one of them.
    """
    for edge in planned.inputs:  # rows of build sides may fail as well
        made = [name for name in nodes[edge.node].rows_of if nodes[name].grouping is not Grouping.RELAXED]
        if any(
            len(made) > 1 or not _grouped(correlations[name]) == _grouped(correlations[edge.node]) == left
            for name in made
        ):
            return False
    return True


def _grouped(node: NodeCorrelation) -> _Groups:
    """The groups by the keys of aggregates' rows that rows are of: their sources and fields."""
    return frozenset((each.sources, each.fields) for each in node.keys if each.origin is KeyOrigin.AGGREGATE)


def _kinds(planned: PlannedNode, nodes: Mapping[str, PlannedNode]) -> dict[str, Kinds]:
    """The types of each column in the rows that enter or leave a node."""
    rows = [*planned.outputs.values(), *(nodes[edge.node].outputs[edge.port] for edge in planned.inputs)]
    found: dict[str, dict[types.Type, None]] = {}
    for row in rows:
        for column in row:
            found.setdefault(column.name, {})[column.type] = None
    return {name: tuple(kinds) for name, kinds in found.items()}


def _cut(
    edges: Sequence[Input], correlations: Mapping[str, NodeCorrelation], fields: tuple[str, ...]
) -> Iterator[GroupKey]:
    """The groups of some inputs by the fields that go on; with fewer fields, groups are larger."""
    for edge in edges:
        for each in correlations[edge.node].keys:
            if (left := each.cut(fields)) is not None:
                yield left


# ---- which failures may have caused others
# ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Dependency:
    """The records that records at a node depend on.

    Args:
        depth: how often they do, one after another.
        sources: whose records they depend on.
        depth_out: the depth of the node's output rows: the rows of an aggregate depend on one another.
        sources_out: the same.
    """

    depth: int
    sources: frozenset[str]
    depth_out: int
    sources_out: frozenset[str]


def _dependencies(plan: Plan, known: Correlation) -> dict[str, _Dependency]:
    """The dependencies of records at each node."""
    found: dict[str, _Dependency] = {}
    before: dict[str, _Dependency] | None = None
    while found != before:  # a variable may be set by a node that stands downstream of its readers in the plan
        before = dict(found)
        for planned in plan.nodes:
            found[planned.name] = _dependency(planned, known.nodes, found)
    caused: dict[str, frozenset[str]] = {name: frozenset() for name in plan.sources}
    for name, dependency in found.items():
        for source in known.nodes[name].sources:
            caused[source] |= dependency.sources
    return {
        name: replace(dependency, sources=_closed(dependency.sources, caused)) for name, dependency in found.items()
    }


def _rows_meet(plan: Plan, known: Correlation) -> bool:
    """True if rows of aggregates that retract nothing come to where others depend on them.

    The record of a build side does on the row that drives a combine: it has an entry where they fail together.
    """
    for planned in plan.nodes:
        met = _met(planned)
        streams = upstream.streams(planned) if met or _groups(planned) else []
        for name in (*met, *upstream.awaited(planned), *(edge.node for edge in streams)):
            made_of = known.nodes[name].rows_of
            if any(known.nodes[each].grouping is not Grouping.RELAXED for each in made_of):
                return True
    return False


def _dependency(
    planned: PlannedNode, nodes: Mapping[str, NodeKeys], dependencies: Mapping[str, _Dependency]
) -> _Dependency:
    setting = upstream.awaited(planned)  # values of state nodes follow from all their records
    before = [
        dependencies[name] for name in (*(edge.node for edge in planned.inputs), *setting) if name in dependencies
    ]
    depth = max((each.depth_out for each in before), default=0)
    sources = frozenset().union(*(each.sources_out for each in before))
    if met := [*_met(planned), *setting]:
        depth += 1
        sources |= _sources(met, nodes)
    if planned.step is not None and planned.step.record_properties.looked_up_nodes:
        depth = max(depth, 1)
        sources |= _sources(planned.step.record_properties.looked_up_nodes, nodes)
    if not _groups(planned):
        return _Dependency(depth, sources, depth, sources)
    of_groups = _sources([edge.node for edge in upstream.streams(planned)], nodes)
    return _Dependency(depth, sources, depth + 1, sources | of_groups)


def _groups(planned: PlannedNode) -> bool:
    return planned.step is not None and planned.step.record_properties.group_by is not None


def _met(planned: PlannedNode) -> list[str]:
    """The inputs whose records each record that comes to a node may depend on; of a source itself."""
    if planned.step is None or _groups(planned):
        return []
    streams = upstream.streams(planned)
    if any(isinstance(phase, shape.ShufflePhase) for phase in planned.step.phases(1)):
        # Records of a source meet each other where it has rules about them.
        own = [planned.name] if planned.is_source else []
        return [*own, *(edge.node for edge in planned.inputs)]
    return [edge.node for edge in planned.inputs if edge not in streams]


def _sources(names: Iterable[str], nodes: Mapping[str, NodeKeys]) -> frozenset[str]:
    return frozenset().union(*(nodes[name].sources for name in names))


def _closed(sources: frozenset[str], caused: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Some sources with those whose records say which of theirs are excluded, and so on."""
    while True:
        more = sources.union(*(caused[source] for source in sources))
        if more == sources:
            return sources
        sources = more
