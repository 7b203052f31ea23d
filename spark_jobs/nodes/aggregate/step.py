"""The bound aggregate: keys, accumulators, and the programs before and after them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node
from spark_jobs.nodes.aggregate.totals import COUNTERS, Totals
from spark_jobs.nodes.records.columns import group_number
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.properties import ColumnProperties, MemberProperties, RecordProperties

if TYPE_CHECKING:
    from spark_jobs.cxl import schema, typed
    from spark_jobs.nodes.aggregate.timed.time_window import TimeWindow
    from spark_jobs.nodes.records.columns import InheritedKeys
    from spark_jobs.nodes.terms.requirements import Requirements


@dataclass(frozen=True)
class AggregateStep(node.Step):
    """An aggregate, bound.

    `input` has the columns of the input that the node reads, `output` the node's output columns. The result record is
    the group keys in `group_by` order, overlaid with the emits of `program.after`.
    """

    kind: ClassVar[str] = "aggregate"

    group_by: tuple[str, ...]
    program: typed.AggregateProgram
    input: schema.Schema
    output: schema.Schema
    #: `strategy:` as the user wrote it. It does not change the result.
    strategy: str = "auto"
    time_window: TimeWindow | None = None
    #: Keys that are undeclared columns.
    undeclared: tuple[str, ...] = ()
    #: The counters that its emits and downstream programs read; None if there are none.
    totals: Totals | None = None
    #: The correlation keys of fields that are grouped by: each original value of a rewritten field has its own group
    #: (`docs/semantics/correlation.md`).
    splits_by: tuple[str, ...] = ()
    #: For each key, the columns that hold its fields for records joined by combines.
    agreed_keys: InheritedKeys = ()
    #: An output writes the numbers of the groups.
    is_numbered: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that are equal for all records of a group."""
        return self.group_by + self.splits_by

    @property
    def record_properties(self) -> RecordProperties:
        """Groups belong to no file."""
        return RecordProperties(preserves_records=False, group_by=self.group_by)

    @property
    def column_properties(self) -> ColumnProperties:
        """Keys may be undeclared columns."""
        is_undeclared = bool(self.undeclared)
        return ColumnProperties(names_undeclared=is_undeclared, reads_undeclared=is_undeclared)

    @property
    def member_properties(self) -> MemberProperties:
        """Event times decide to which windows records belong."""
        reads = frozenset[str]() if self.time_window is None else frozenset(["source.event_time"])
        return MemberProperties(reads=reads, counters=self.totals)

    @property
    def module(self) -> str:
        """Aggregates with time windows have operators of their own."""
        if self.time_window is None:
            return "run"
        return "timed.session_run" if self.time_window.is_session else "timed.windowed_run"

    @property
    def _shuffle_keys(self) -> tuple[str, ...]:
        """The names of the columns that the records of a group share.

        For sessions that is the key alone: all records of a key have to reach the same partition.
        """
        window = self.time_window
        return self.group_by if window is None or window.is_session else (*self.group_by, "window")

    def partitions(self, sizes: shape.Sizes) -> int:
        """As many as the columns that it reads need; one for a single group and for numbered groups."""
        if self.is_numbered:
            return 1
        return sizes.partitions(self.name, len(self.input) + 1) if self._shuffle_keys else 1

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """Groups are built where records are read, and are merged in the partition of their keys."""
        by = f"shuffled by {', '.join(self._shuffle_keys) or 'nothing: one group'}"
        # A single group of all records needs no memory worth planning.
        stage = "aggregation:hash" if self._shuffle_keys or self.time_window else ""
        why = "equal keys meet; partial groups are built before the shuffle"
        meet = shape.ExchangeSpec(shape.ExchangeKind.HASH, shape.Role.FINAL, "merged", "groups", by)
        arrival = shape.Arrival(shape.Passage.SHUFFLED, why, stage)
        return (shape.ShufflePhase(self, partitions, arrival, "partial", (meet, shape.restored_order())),)

    def pruned(self, required: Requirements) -> AggregateStep:
        """The step with the counters that are read downstream. Nodes upstream need not provide them."""
        read = required.values & COUNTERS
        is_numbered = group_number(self.name) in required.columns
        if not read and self.time_window is None and not is_numbered:
            return self
        upstream, window = required.upstream(), self.time_window
        # Splits decide which task finds a record late, so no node downstream counts late records.
        nodes = upstream.nodes if window is None else upstream.nodes - {self.name}
        totals = Totals(tuple(sorted(read)), nodes, upstream.sources, upstream.streams) if read else None
        window = window and replace(window, sources=len(upstream.streams))
        return replace(self, totals=totals, time_window=window, is_numbered=is_numbered)
