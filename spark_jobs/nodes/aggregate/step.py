"""What an aggregate is when it runs: keys, accumulators, and the programs before and after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.nodes import node

if TYPE_CHECKING:
    from spark_jobs.cxl import schema, typed
    from spark_jobs.nodes.aggregate.totals import Totals


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
