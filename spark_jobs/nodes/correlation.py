"""Correlation as nodes know it: the groups of their rows, from the plan, and the hook that operators call.

A group is all records of a source that have equal values of the source's correlation key. A row of an output may belong
to several groups: to the group of its own record, and to the groups of the records joined to it. The plan alone decides
which groups these are (`CorrelationPlan`); a task only compares values (`spark_jobs/nodes/records/identity.py`).

Operators know correlation only by `CorrelationHook`. In pipelines without keys the hook does nothing.
`spark_jobs/execute/correlation/` implements it.
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
    """The reason why a row belongs to a group."""

    #: The row is a record of one of the sources, and belongs to that source's group alone.
    RECORD = "record"
    #: The row comes from an aggregate whose keys cover the correlation key. It belongs to the groups of all its
    #: records, and to the groups of the records joined to these.
    AGGREGATE = "aggregate"
    #: A record was joined to the row, and the row shares that record's group (`propagate_ck`).
    JOINED = "joined"


@dataclass(frozen=True, order=True)
class GroupKey:
    """A key that assigns rows to groups.

    Args:
        sources: the sources whose records form the groups.
        fields: the fields of the correlation key, in order.
        origin: the reason why a row belongs to such a group.
        columns: the columns of rows that hold these fields.
        shared: sources merged into the same stream. Rows that are not records of a single source belong to the groups
            of these sources by the same fields.
    """

    sources: tuple[str, ...]
    fields: tuple[str, ...]
    origin: KeyOrigin = KeyOrigin.RECORD
    columns: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    @property
    def domain(self) -> tuple[str, ...]:
        """The sources of the groups of a row that is not a record of a single source."""
        return tuple(dict.fromkeys((*self.sources, *self.shared)))

    def cut(self, fields: Container[str]) -> GroupKey | None:
        """The key of the larger groups that some of the fields form; None if no field remains."""
        left = [number for number, field in enumerate(self.fields) if field in fields]
        if not left:
            return None
        of_fields, columns = (tuple(each[number] for number in left) for each in (self.fields, self.columns))
        return replace(self, fields=of_fields, columns=columns)


@dataclass(frozen=True)
class NodeCorrelation:
    """Correlation at a node.

    Args:
        keys: the keys that assign its rows to groups.
        types: the types of the columns of keys and of dead letters in its input and output rows.
        mixes: its rows combine records of several groups: a retractable aggregate.
        is_deferred: it is downstream of such a node. A failure here counts after all failures that are not deferred.
        whole: the sources whose records arrive with their complete key.
        are_rows_whole: rows of aggregates that mix no groups arrive with their complete key, and with no other, and
            leave with it.
        depth: how often records depend on others on the way here. Failures at a smaller depth count first.
        sources: the sources of its rows and records, without build sides.
        depends_on: the sources whose failing records decide which rows fail here.
        feeds_mixed: a node downstream mixes groups, so retracted records are searched for on the way to it.
        grouped: columns that aggregates grouped these rows by and that no source has. Dead letters have no column for
            them and name them in their message.
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
    """The correlation groups of a pipeline, in the form that its tasks need.

    Args:
        nodes: correlation at each node, in the order of the plan.
        fields: the fields of all correlation keys, in the order of dead letters.
        columns: the columns of all sources, in the order of dead letters. A row that is no record shows its own.
        policies: the failures that reject a group at each output: `any`, `all` or `primary`.
        limit: the largest number of records in a group; 0 for any number.
        rows_meet: rows of aggregates that retract nothing reach nodes at which records depend on other records.
    """

    nodes: Mapping[str, NodeCorrelation]
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    policies: Mapping[str, str]
    limit: int
    rows_meet: bool = False

    def key(self, source: str) -> tuple[str, ...]:
        """The correlation key of a source; empty if it has none."""
        return next((each.fields for each in self.nodes[source].keys), ())

    @cached_property
    def views(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """For each source, the sets of key fields by which any node looks up its groups."""
        found: dict[str, dict[tuple[str, ...], None]] = {}
        for node in self.nodes.values():
            for key in node.keys:
                for source in key.domain:
                    if set(key.fields) <= set(self.key(source)):
                        found.setdefault(source, {})[key.fields] = None
        return {source: tuple(views) for source, views in found.items()}


class Contributions(NamedTuple):
    """Records, by their split and row there, and the rows of an aggregate to which they contribute.

    `inner` has the number of each record's row in another aggregate if the record is one, and `keys` has the comparable
    keys of the rows.
    """

    split: pa.Array
    row: pa.Array
    inner: pa.Array
    keys: Sequence[pa.Array]


class CorrelationHook:
    """The interface between operators and correlation. This class is for pipelines without keys, and does nothing."""

    #: The columns by which an aggregate keeps records apart until its groups are complete; empty in most passes.
    record_columns: tuple[str, ...] = ()

    def excluded(self, source: str, batch: Batch) -> np.ndarray | None:
        """A mask of a source's records that count as never read: they failed or were retracted; None if none."""
        return None

    def suppressed(self, aggregate: str, batch: Batch) -> np.ndarray | None:
        """A mask of an aggregate's rows that count as never made: they failed in an earlier pass; None if no row."""
        return None

    def withheld(self, output: Operator, batch: Batch) -> np.ndarray | None:
        """The numbers of the rows that an output must not write: they failed, or their group is rejected; None if none.

        Rows of rejected groups become dead letters here.
        """
        return None

    def rechecked(self, output: str, batch: Batch) -> np.ndarray | None:
        """The numbers of unwritten rows that must also fail at the output in this pass; None if there are none.

        Each pass finds such failures again for rows of aggregates, and for records that no earlier pass has seen.
        """
        return None

    def collect(self, aggregate: str, contributions: Callable[[], Contributions]) -> None:
        """Record which records contribute to retracted rows of an aggregate, while a pass searches for them."""

    def needs_rows(self, aggregate: str) -> bool:
        """True if the pass needs the rows of an aggregate, and not only the list of their records."""
        return True

    def inner_rows(self, batch: Batch) -> dict[str, pa.Array]:
        """The column with the rows of other aggregates that contribute to an aggregate, if `collect` needs it."""
        return {}

    def row_columns(
        self, aggregate: str, keys: Callable[[], Sequence[pa.Array]], positions: range
    ) -> dict[str, pa.Array]:
        """The engine columns of an aggregate's rows: their numbers, and their positions where rows mix groups."""
        return {}

    def joined_columns(self, count: int) -> dict[str, pa.Array]:
        """The engine column that marks results as made by a combine."""
        return {}
