"""What is known of correlation groups before a run: which records belong together, node by node.

A group is all records of a source that have equal values of the source's correlation key. A row of an output may be of
several: of that of its own record, and of those of what was joined to it. Which ones follows from the plan alone; what
a task has to do is to compare values (`spark_jobs/nodes/records/groups.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from spark_jobs.cxl import types


class Bond(StrEnum):
    """Why a row is of a group."""

    #: It is a record of one of the sources, and of that source's group alone.
    OWN = "own"
    #: It is the row of an aggregate whose keys cover the correlation key: of the groups of all its records, and of
    #: those of what was joined to these.
    GROUPED = "grouped"
    #: Something was joined to it whose group it shares (`propagate_ck`).
    JOINED = "joined"


@dataclass(frozen=True, order=True)
class Membership:
    """What makes rows members of groups.

    Args:
        sources: the sources whose records make the groups.
        fields: the fields of the correlation key that decide, in order.
        bond: why a row is of such a group.
        columns: the columns of rows that have these fields.
        shared: the sources with which it has become one stream: rows that are no records of a single source are of
            their groups by the same fields as well.
    """

    sources: tuple[str, ...]
    fields: tuple[str, ...]
    bond: Bond = Bond.OWN
    columns: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    @property
    def domain(self) -> tuple[str, ...]:
        """The sources of the groups that a row is of which has no single source."""
        return tuple(dict.fromkeys((*self.sources, *self.shared)))

    def cut(self, fields: Container[str]) -> Membership | None:
        """The membership in the larger groups by some of the fields; None where no field is left."""
        left = [number for number, field in enumerate(self.fields) if field in fields]
        if not left:
            return None
        of_fields, columns = (tuple(each[number] for number in left) for each in (self.fields, self.columns))
        return replace(self, fields=of_fields, columns=columns)


@dataclass(frozen=True)
class Standing:
    """What a node's rows belong to.

    Args:
        memberships: the groups.
        types: what the columns of keys and of dead letters hold in the rows that come and go.
        mixes: whether the node's rows are made of records of several groups: a retractable aggregate.
        is_behind: whether such a node is above it: what fails here is settled after all that is not.
        whole: the sources whose records come with their whole key.
        are_rows_whole: whether rows of aggregates that mix no groups come with theirs, alone, and leave with them.
        depth: how often on the way here records depend on others: what fails where they do less is settled before.
        sources: those of its rows and records, those of build sides left out.
        swayed_by: the sources whose records say, by failing, what fails here.
        is_traced: whether a node behind it makes rows of records of several groups: on the way there, records that are
            taken back are looked for.
        grouped: the columns by which rows of aggregates here were grouped and that no source has: dead letters have no
            column for them, and name them in words.
    """

    memberships: tuple[Membership, ...]
    types: Mapping[str, tuple[types.Type, ...]]
    mixes: bool = False
    is_behind: bool = False
    whole: frozenset[str] = frozenset()
    are_rows_whole: bool = True
    depth: int = 0
    sources: frozenset[str] = frozenset()
    swayed_by: frozenset[str] = frozenset()
    is_traced: bool = True
    grouped: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupPlan:
    """The correlation groups of a pipeline, as its tasks need to know them.

    Args:
        standings: what each node's rows belong to.
        fields: the fields of all correlation keys, in the order of dead letters.
        columns: the columns of all sources, in the order of dead letters: a row that is no record shows its own.
        policies: which failures reject a group at each output: `any`, `all` or `primary`.
        limit: the most records that a group may have; 0 for any number.
        rows_meet: whether rows of aggregates that take nothing back come to where others depend on them.
    """

    standings: Mapping[str, Standing]
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    policies: Mapping[str, str]
    limit: int
    rows_meet: bool = False

    def key(self, source: str) -> tuple[str, ...]:
        """The correlation key of a source; nothing where it has none."""
        return next((each.fields for each in self.standings[source].memberships), ())

    @cached_property
    def views(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """By which fields of its key each source's groups are looked up anywhere."""
        found: dict[str, dict[tuple[str, ...], None]] = {}
        for standing in self.standings.values():
            for membership in standing.memberships:
                for source in membership.domain:
                    if set(membership.fields) <= set(self.key(source)):
                        found.setdefault(source, {})[membership.fields] = None
        return {source: tuple(views) for source, views in found.items()}
