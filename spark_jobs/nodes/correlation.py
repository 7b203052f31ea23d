"""Correlation as nodes know it: the groups of their rows, from the plan, and the hook that operators call.

A group is all records of a source that have equal values of the source's correlation key. A row of an output may belong
to several: to the group of its own record, and to the groups of the records joined to it. Which ones follows from the
plan alone (`CorrelationPlan`); a task has to compare values (`spark_jobs/nodes/records/identity.py`).

Operators know correlation by `CorrelationHook` alone, which asks nothing of pipelines without keys. The machine that
stands on the other side is `spark_jobs/execute/correlation/`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    import numpy as np
    import pyarrow as pa

    from spark_jobs.cxl import types
    from spark_jobs.nodes.operator import Operator
    from spark_jobs.nodes.records.batches import Batch


class KeyOrigin(StrEnum):
    """Why a row is of a group."""

    #: It is a record of one of the sources, and of that source's group alone.
    RECORD = "record"
    #: It is the row of an aggregate whose keys cover the correlation key: of the groups of all its records, and of
    #: the groups of what was joined to these.
    AGGREGATE = "aggregate"
    #: Something was joined to it whose group it shares (`propagate_ck`).
    JOINED = "joined"


@dataclass(frozen=True, order=True)
class GroupKey:
    """A key by which rows are of groups.

    Args:
        sources: the sources whose records make the groups.
        fields: the fields of the correlation key that decide, in order.
        origin: why a row is of such a group.
        columns: the columns of rows that have these fields.
        shared: the sources with which it has become one stream: rows that are no records of a single source are of
            their groups by the same fields as well.
    """

    sources: tuple[str, ...]
    fields: tuple[str, ...]
    origin: KeyOrigin = KeyOrigin.RECORD
    columns: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    @property
    def domain(self) -> tuple[str, ...]:
        """The sources of the groups that a row is of which has no single source."""
        return tuple(dict.fromkeys((*self.sources, *self.shared)))

    def cut(self, fields: Container[str]) -> GroupKey | None:
        """The key of the larger groups by some of the fields; None where no field is left."""
        left = [number for number, field in enumerate(self.fields) if field in fields]
        if not left:
            return None
        of_fields, columns = (tuple(each[number] for number in left) for each in (self.fields, self.columns))
        return replace(self, fields=of_fields, columns=columns)


@dataclass(frozen=True)
class NodeCorrelation:
    """Correlation at a node.

    Args:
        keys: the keys by which its rows are of groups.
        types: the types of the columns of keys and of dead letters in its input and output rows.
        mixes: whether its rows are made of records of several groups: a retractable aggregate.
        is_deferred: whether it is downstream of such a node: what fails here counts after all that is not.
        whole: the sources whose records come with their whole key.
        are_rows_whole: whether rows of aggregates that mix no groups come with theirs, alone, and leave with them.
        depth: how often on the way here records depend on others: what fails where they do less counts before.
        sources: those of its rows and records, those of build sides left out.
        depends_on: the sources whose records say, by failing, what fails here.
        feeds_mixed: whether a node downstream mixes groups: on the way there, retracted records are searched for.
        grouped: the columns by which rows of aggregates here were grouped and that no source has: dead letters have no
            column for them, and name them in words.
    """

    keys: tuple[GroupKey, ...]
    types: Mapping[str, tuple[types.Type, ...]]
    mixes: bool = False
    is_deferred: bool = False
    whole: frozenset[str] = frozenset()
    are_rows_whole: bool = True
    depth: int = 0
    sources: frozenset[str] = frozenset()
    depends_on: frozenset[str] = frozenset()
    feeds_mixed: bool = True
    grouped: tuple[str, ...] = ()


@dataclass(frozen=True)
class CorrelationPlan:
    """The correlation groups of a pipeline, as its tasks need to know them.

    Args:
        nodes: correlation at each node, in the order of the plan.
        fields: the fields of all correlation keys, in the order of dead letters.
        columns: the columns of all sources, in the order of dead letters: a row that is no record shows its own.
        policies: which failures reject a group at each output: `any`, `all` or `primary`.
        limit: the most records that a group may have; 0 for any number.
        rows_meet: whether rows of aggregates that retract nothing come to where others depend on them.
    """

    nodes: Mapping[str, NodeCorrelation]
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    policies: Mapping[str, str]
    limit: int
    rows_meet: bool = False

    def key(self, source: str) -> tuple[str, ...]:
        """The correlation key of a source; nothing where it has none."""
        return next((each.fields for each in self.nodes[source].keys), ())

    @cached_property
    def views(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """The key fields by which each source's groups are looked up anywhere."""
        found: dict[str, dict[tuple[str, ...], None]] = {}
        for node in self.nodes.values():
            for key in node.keys:
                for source in key.domain:
                    if set(key.fields) <= set(self.key(source)):
                        found.setdefault(source, {})[key.fields] = None
        return {source: tuple(views) for source, views in found.items()}


class Contributions(NamedTuple):
    """Records, by their split and row there, and the rows of an aggregate that they are in.

    `inner` has the number of the row of another aggregate that a record is itself, where it is one, and `keys` the
    comparable keys of the rows that they are in.
    """

    split: pa.Array
    row: pa.Array
    inner: pa.Array
    keys: Sequence[pa.Array]


class CorrelationHook:
    """The interface between operators and correlation. This class is for pipelines without keys, and does nothing."""

    #: The columns by which an aggregate keeps records apart until its groups are whole; none in most passes.
    record_columns: tuple[str, ...] = ()

    def excluded(self, source: str, batch: Batch) -> np.ndarray | None:
        """A mask of a source's records that count as never read: they failed or were retracted. None if none do."""
        return None

    def suppressed(self, aggregate: str, batch: Batch) -> np.ndarray | None:
        """A mask of an aggregate's rows that count as never made, since they failed before; None if none do."""
        return None

    def withheld(self, output: Operator, batch: Batch) -> np.ndarray | None:
        """The rows that an output does not write, by number: they failed, or their group is rejected; None: none.

        Those of rejected groups become dead letters here.
        """
        return None

    def rechecked(self, output: str, batch: Batch) -> np.ndarray | None:
        """The numbers of unwritten rows that have to fail at the output in this pass, too; None if there are none.

        Each pass finds such failures again for rows of aggregates, and for records that no earlier pass has seen.
        """
        return None

    def collect(self, aggregate: str, contributions: Callable[[], Contributions]) -> None:
        """Take note of records that are in retracted rows of an aggregate, while a pass searches for them."""

    def needs_rows(self, aggregate: str) -> bool:
        """Whether the pass needs the rows of an aggregate, and not only what records they are made of."""
        return True

    def inner_rows(self, batch: Batch) -> dict[str, pa.Array]:
        """The column that says which rows of other aggregates go into an aggregate, where `collect` asks for it."""
        return {}

    def row_columns(
        self, aggregate: str, keys: Callable[[], Sequence[pa.Array]], positions: range
    ) -> dict[str, pa.Array]:
        """The engine columns of an aggregate's rows: their numbers, and their positions where rows mix groups."""
        return {}

    def joined_columns(self, count: int) -> dict[str, pa.Array]:
        """The engine column that says of results that a combine made them."""
        return {}
