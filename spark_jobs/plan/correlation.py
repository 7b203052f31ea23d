"""Correlation at each node: the keys that its records carry, whether groups mix keys, and which nodes are downstream.

All of it follows from the columns that binding gave the nodes, and from what steps say about themselves. Runs and
`explain` read it here. The rules are in `docs/semantics/correlation.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.nodes.records.columns import CORRELATION, group_number, is_engine, numbered
from spark_jobs.plan.physical import projection, upstream
from spark_jobs.plan.plan import cached_on_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spark_jobs.plan.plan import Plan, PlannedNode


class Grouping(StrEnum):
    """The relation between the groups of an aggregate and the groups of the correlation key."""

    #: `group_by` has every key field: a row is of one correlation group, and is rejected with it.
    STRICT = "strict"
    #: A row mixes correlation groups: records are taken out of it, and it is computed again.
    RELAXED = "relaxed"
    #: A row of a time window mixes them; windows are not computed again, so a failure downstream is the row's.
    OPEN = "open"


@dataclass(frozen=True)
class NodeKeys:
    """The correlation keys at a node.

    Args:
        name: the node.
        fields: the key fields of sources that its records carry, in the order of their columns.
        aggregates: the retractable aggregates whose rows its records are, or are made of.
        sources: the sources whose records it has, without sources of build sides.
        records_of: the sources whose records themselves it has, not only rows of aggregates made of them.
        rows_of: the aggregates whose rows its records are, all or some of them; its own where it is one.
        grouping: where it makes one record of many.
        left_out: the keys that its inputs have and its records do not.
        retractable_upstream: the retractable aggregates upstream of it on any path, in topological order. Their rows
            are final only after everything else is.
        joined: the sources of build records with whose groups its rows leave as well (`propagate_ck`).
    """

    name: str
    fields: tuple[str, ...]
    aggregates: tuple[str, ...]
    sources: tuple[str, ...]
    records_of: tuple[str, ...] = ()
    rows_of: tuple[str, ...] = ()
    grouping: Grouping | None = None
    left_out: tuple[str, ...] = ()
    retractable_upstream: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()

    @property
    def is_correlated(self) -> bool:
        """True if its records are of groups."""
        return bool(self.fields or self.aggregates)

    @property
    def columns(self) -> tuple[str, ...]:
        """The engine columns of its keys: key fields first, then group numbers."""
        return (*(CORRELATION.of(each) for each in self.fields), *(group_number(each) for each in self.aggregates))


@dataclass(frozen=True)
class DeferredRegion:
    """The nodes that are computed again when records are retracted from an aggregate.

    Args:
        producer: the aggregate.
        members: the nodes downstream of it, in topological order, outputs left out.
        outputs: the outputs that it reaches.
        columns: its columns that any of them reads.
    """

    producer: str
    members: tuple[str, ...]
    outputs: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Correlation:
    """Correlation in a plan.

    Args:
        sources: the key of each source that has one.
        nodes: every node, in topological order.
        regions: the regions of the retractable aggregates.
        policies: when each output rejects a group: `any`, `all` or `primary`.
        limit: the most records that a group may have; 0 for any number.
    """

    sources: Mapping[str, tuple[str, ...]]
    nodes: Mapping[str, NodeKeys]
    regions: tuple[DeferredRegion, ...]
    policies: Mapping[str, str]
    limit: int

    @property
    def is_active(self) -> bool:
        """True if any record is of a group."""
        return bool(self.sources)

    @property
    def fields(self) -> tuple[str, ...]:
        """The key fields of all sources in order of first appearance, as dead letters have them."""
        return tuple(dict.fromkeys(field for key in self.sources.values() for field in key))

    @property
    def retractable(self) -> tuple[str, ...]:
        """The aggregates that records are taken back from, in topological order."""
        return tuple(region.producer for region in self.regions)


@cached_on_plan
def of(plan: Plan) -> Correlation:
    """Correlation in a plan."""
    known: dict[str, NodeKeys] = {}
    for planned in plan.nodes:
        known[planned.name] = _keys(planned, known)
    wanted = projection.required_by_node(plan.nodes)
    relaxed = [planned for planned in plan.nodes if known[planned.name].grouping is Grouping.RELAXED]
    return Correlation(
        sources={name: step.correlation_key for name, step in plan.sources.items() if step.correlation_key},
        nodes=known,
        regions=tuple(_region(plan, producer, known, wanted[producer.name].names) for producer in relaxed),
        policies={
            name: step.correlation_fanout_policy or plan.errors.correlation_fanout_policy
            for name, step in plan.outputs.items()
        },
        limit=plan.errors.max_group_buffer,
    )


def _keys(planned: PlannedNode, known: Mapping[str, NodeKeys]) -> NodeKeys:
    inputs = [known[edge.node] for edge in planned.inputs]
    streams = [known[edge.node] for edge in upstream.streams(planned)]
    # Outputs have no ports: they write their input.
    carried = _of_row(planned) if planned.outputs else _all(each.columns for each in streams)
    given = _all(each.columns for each in inputs)
    grouping = _grouping(planned, streams, carried)
    groups = planned.step is not None and planned.step.record_properties.group_by is not None
    sources = _all(each.sources for each in streams) if not planned.is_source else (planned.name,)
    return NodeKeys(
        name=planned.name,
        fields=tuple(key for key in CORRELATION.keys(carried) if numbered(key) is None),
        aggregates=tuple(name for key in CORRELATION.keys(carried) if (name := numbered(key)) is not None),
        sources=sources,
        records_of=() if groups else _all(each.records_of for each in streams) if not planned.is_source else sources,
        rows_of=(planned.name,) if groups else _all(each.rows_of for each in streams),
        grouping=grouping,
        left_out=CORRELATION.keys(name for name in given if name not in carried),
        retractable_upstream=_all((*each.retractable_upstream, *_itself(each)) for each in inputs),
        joined=()
        if grouping is Grouping.RELAXED
        else _all((*(each.joined for each in streams), *_inherited_sources(planned, known))),
    )


def _inherited_sources(planned: PlannedNode, known: Mapping[str, NodeKeys]) -> Iterator[tuple[str, ...]]:
    """The sources of build sides whose keys the results keep."""
    inherited_keys = planned.step.record_properties.inherited_keys if planned.step is not None else ()
    kept = {qualifier for _, qualifier, _ in inherited_keys}
    for edge in planned.inputs:
        if edge.qualifier in kept:
            build = known[edge.node]
            yield tuple(name for name in (*build.sources, *build.joined) if known[name].fields)


def _itself(keys: NodeKeys) -> tuple[str, ...]:
    return (keys.name,) if keys.grouping is Grouping.RELAXED else ()


def _of_row(planned: PlannedNode) -> tuple[str, ...]:
    """The columns of keys in a node's rows: all ports of a node have the same."""
    row = next(iter(planned.outputs.values()), ())
    return tuple(column.name for column in row if column.name in CORRELATION)


def _grouping(planned: PlannedNode, streams: Iterable[NodeKeys], carried: tuple[str, ...]) -> Grouping | None:
    if (
        planned.step is None
        or planned.step.record_properties.group_by is None
        or not any(each.is_correlated for each in streams)
    ):
        return None
    if group_number(planned.name) in carried:
        return Grouping.RELAXED
    given = {column for each in streams for column in each.columns}
    return Grouping.STRICT if given <= set(carried) else Grouping.OPEN


def _region(plan: Plan, producer: PlannedNode, known: Mapping[str, NodeKeys], wanted: frozenset[str]) -> DeferredRegion:
    reached = [name for name, keys in known.items() if producer.name in keys.retractable_upstream]
    row = next(iter(producer.outputs.values()))
    return DeferredRegion(
        producer=producer.name,
        members=tuple(name for name in reached if name not in plan.outputs),
        outputs=tuple(name for name in reached if name in plan.outputs),
        columns=tuple(column.name for column in row if column.name in wanted or is_engine(column.name)),
    )


def _all(sets: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in sets for name in each))
