"""Correlation in `explain`: the keys of each node, and the effect of a failure there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.nodes.records.columns import CORRELATION, numbered
from spark_jobs.plan import correlation
from spark_jobs.plan.correlation import Grouping
from spark_jobs.plan.physical import correlation as physical
from spark_jobs.plan.plan import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spark_jobs.plan.correlation import Correlation, NodeKeys
    from spark_jobs.plan.plan import Plan


@dataclass(frozen=True)
class AffectedRows:
    """The rows that arrive at outputs as members of groups.

    Args:
        by_source: by which fields of its key a failing record of each source takes others along, in words.
        grouped: the outputs whose rows are of groups.
    """

    by_source: Mapping[str, str]
    grouped: frozenset[str]


_POLICIES = {
    "any": "a group is rejected when any of its records fails",
    "all": "a group is rejected when all of its records fail, or a row that is made of them",
    "primary": "a group is rejected when its first record fails",
}


def lines(plan: Plan) -> list[str]:
    """The section of the text; nothing where no source has a key."""
    found = correlation.of(plan)
    if not found.is_active:
        return []
    reach = _reach(plan, found)
    size = f"at most {found.limit} records" if found.limit else "of any size"
    shown = [f"Groups: {size}; {_strategy(plan.errors.strategy)}"]
    for planned in plan.nodes:
        keys = found.nodes[planned.name]
        shown += ["", f"{planned.kind} '{planned.name}':"]
        shown += [f"  {title}: {text}" for title, text in _said(plan, found, keys, reach)]
    return shown


def _strategy(strategy: Strategy) -> str:
    return {
        Strategy.FAIL_FAST: "the first failure ends the run, so no group is rejected",
        Strategy.CONTINUE: "a rejected group is dead letters",
        Strategy.BEST_EFFORT: "a rejected group is dropped and counted",
    }[strategy]


def _said(plan: Plan, found: Correlation, keys: NodeKeys, reach: AffectedRows) -> Iterator[tuple[str, str]]:
    yield "keys", _listed(keys.columns) or _without(keys)
    if keys.left_out:
        yield "ends here", _listed(map(CORRELATION.of, keys.left_out))
    if keys.joined:
        yield "joined", f"a row leaves with the groups of the records of {_quoted(keys.joined)} that it was joined to"
    if keys.grouping is not None:
        yield "groups", _grouping(keys)
    if keys.retractable_upstream:
        yield "deferred", f"computed again when records are taken back out of {_quoted(keys.retractable_upstream)}"
    if keys.name in found.policies:
        policy = found.policies[keys.name]
        effect = _POLICIES[policy] if keys.name in reach.grouped else "of no effect: its rows are of no group"
        yield "fan-out", f"{policy}: {effect}"
    if plan.errors.strategy is not Strategy.FAIL_FAST:
        yield "a failure", failure(found, keys, reach)


def _without(keys: NodeKeys) -> str:
    return "none: each record fails alone" if not keys.rows_of else "none: each row fails alone"


def _grouping(keys: NodeKeys) -> str:
    fields = [field for field in keys.left_out if numbered(field) is None]
    made_of = [name for field in keys.left_out if (name := numbered(field)) is not None]
    reasons = [f"group_by leaves out {_listed(fields)}"] if fields else []
    reasons += [f"it is made of rows of {_quoted(made_of)}"] if made_of else []
    why = " and ".join(reasons)
    is_of = f"a row is rejected with its groups by {', '.join(keys.fields)} alone" if keys.fields else "mixed for good"
    return {
        Grouping.STRICT: "strict: group_by has every key field, so a row is rejected with its correlation group",
        Grouping.RELAXED: f"retractable: {why}, so a row mixes correlation groups",
        Grouping.OPEN: f"{is_of}: {why}, and time windows are not computed again",
    }[keys.grouping or Grouping.STRICT]


def _reach(plan: Plan, found: Correlation) -> AffectedRows:
    """The fields by which failing records take others along, and where.

    A record belongs to the group that it was read with. Rows that have lost fields of the key belong to groups by the
    remaining fields, and to none without any. At an output, a failing record takes the rows of these groups along.
    """
    known = physical.of(plan)
    assert known is not None  # some source has a key
    by_source = {}
    for source, key in found.sources.items():
        views: dict[tuple[str, ...], dict[str, None]] = {}
        for output in plan.outputs:
            of_source = [each.fields for each in known.nodes[output].keys if source in each.domain]
            if not of_source and source in found.nodes[output].sources:
                of_source = [()]
            for fields in of_source:
                if set(fields) < set(key):
                    views.setdefault(fields, {})[output] = None
        less = ", ".join(f"at {_quoted(names)} {_by(view)}" for view, names in views.items())
        by_source[source] = f"{source} by {', '.join(key)}{f', but {less}' if less else ''}"
    return AffectedRows(by_source, frozenset(name for name in plan.outputs if known.nodes[name].keys))


def _by(view: tuple[str, ...]) -> str:
    return f"by {', '.join(view)} alone" if view else "none"


def failure(found: Correlation, keys: NodeKeys, reach: AffectedRows) -> str:
    """The records and rows that a failing record or row of a node takes along."""
    clauses = []
    keyed = [name for name in keys.records_of if name in found.sources]
    if own := [reach.by_source[name] for name in keyed]:
        clauses.append(f"takes along the records of its source with the same key ({'; '.join(own)})")
    clauses += [_of_row(found, name) for name in keys.rows_of]
    if alone := [name for name in keys.records_of if name not in found.sources]:
        clauses.append(f"of {_quoted(alone)}, without key: alone")
    return "; ".join(clauses)


def _of_row(found: Correlation, name: str) -> str:
    match found.nodes[name].grouping:
        case Grouping.RELAXED:
            return (
                f"of a row of '{name}': takes the row's records back out of every output and aggregate, and recomputes "
                "the rows that they were in; other records of their correlation groups stay"
            )
        case Grouping.STRICT:
            return f"of a row of '{name}': takes along the correlation group of the row, of all sources of its records"
        case _ if fields := found.nodes[name].fields:
            return f"of a row of '{name}': takes along its groups by {', '.join(fields)}, of all sources of its records"
        case _:
            return f"of a row of '{name}': stays alone"


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(columns)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def record(plan: Plan) -> dict[str, Any] | None:
    """Everything about correlation as plain data; None if no source has a key."""
    found = correlation.of(plan)
    if not found.is_active:
        return None
    reach = _reach(plan, found)
    return {
        "sources": {name: list(key) for name, key in found.sources.items()},
        "max_group_buffer": found.limit,
        "fanout_policies": dict(found.policies),
        "nodes": {name: _record(plan, found, keys, reach) for name, keys in found.nodes.items()},
        "deferred_regions": [
            {
                "producer": region.producer,
                "members": list(region.members),
                "outputs": list(region.outputs),
                "buffer_schema": list(region.columns),
            }
            for region in found.regions
        ],
    }


def _record(plan: Plan, found: Correlation, keys: NodeKeys, reach: AffectedRows) -> dict[str, Any]:
    return {
        "keys": list(keys.columns),
        "left_out": [CORRELATION.of(field) for field in keys.left_out],
        "grouping": keys.grouping,
        "rows_of": list(keys.rows_of),
        "behind": list(keys.retractable_upstream),
        "joined": list(keys.joined),
        "failure": failure(found, keys, reach) if plan.errors.strategy is not Strategy.FAIL_FAST else "ends the run",
    }
