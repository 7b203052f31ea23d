"""What an aggregate is when it runs: keys, accumulators, and the programs before and after them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.nodes import node
from spark_jobs.nodes.aggregate.totals import COUNTERS, Totals
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.cxl import schema, typed
    from spark_jobs.nodes.terms.demand import Demand


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
    #: `strategy:` as it is written; it changes nothing in the result.
    strategy: str = "auto"
    time_window: Any = None
    #: Keys that are undeclared columns.
    undeclared: tuple[str, ...] = ()
    #: The counters that its emits and programs behind it read; None when nobody asks.
    totals: Totals | None = None

    def partitions(self, sizes: shape.Sizes) -> int:
        """As many as the columns that it reads are worth; a single group is in one."""
        return sizes.partitions(self.name, len(self.input) + 1) if self.group_by else 1

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """Groups are built where records are read, and meet by their keys."""
        by = f"shuffled by {', '.join(self.group_by) or 'nothing: one group'}"
        # A single group of all records needs no room.
        stage = "aggregation:hash" if self.group_by else ""
        why = "equal keys meet; partial groups are built before the shuffle"
        meet = shape.Stop(shape.ExchangeKind.GROUP, shape.Role.FINAL, "merged", "groups", by)
        arrival = shape.Arrival(shape.Passage.SHUFFLED, why, stage)
        return (shape.Meet(self, partitions, arrival, "partial", (meet, shape.home())),)

    def asked(self, demand: Demand) -> AggregateStep:
        """The groups know the counters that are read, so nobody upstream is asked for them."""
        read = demand.values & COUNTERS
        if not read:
            return self
        above = demand.above()
        totals = Totals(tuple(sorted(read)), above.nodes, above.sources, above.streams)
        return replace(self, totals=totals)

    @property
    def hands_on(self) -> bool:
        """Groups are records of no file."""
        return False

    @property
    def names_undeclared(self) -> bool:
        """Where a key is undeclared."""
        return bool(self.undeclared)

    @property
    def told(self) -> Totals | None:
        """The counters that groups know."""
        return self.totals
