"""A step's phases: the parts of which it consists, and the exchanges between them.

The planner combines the phases of all steps (`spark_jobs/plan/physical/fragments.py`), tasks open an operator for each
phase, and `explain` shows them. None of the three distinguishes kinds of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from spark_jobs.nodes.node import Step
    from spark_jobs.nodes.terms.needs import Rows, Values


class Role(StrEnum):
    """An operator's role in its step. `OPERATORS` of the step's module has an operator for each role of the step."""

    #: The whole step.
    WHOLE = ""
    #: The end of a fragment: sends records or partial results to an exchange.
    PARTIAL = "partial"
    #: Receives rows of a partition.
    FINAL = "final"
    #: Restores record order.
    ORDERED = "ordered"
    #: Materializes an input for a later job.
    BUILD = "build"
    #: Materializes the output of the node for later jobs.
    MATERIALIZE = "materialize"
    #: Reads records that an earlier job materialized, in place of the node and everything upstream of it.
    READ_MATERIALIZED = "read materialized"


class ExchangeKind(StrEnum):
    """The partitioning of an exchange: by a hash of keys, or by ranges of places in record order."""

    HASH = "hash"
    RANGE = "range"

    @property
    def gives_places(self) -> bool:
        """True if rows get their places in record order when they are sent; otherwise they have them already."""
        return self is not ExchangeKind.RANGE


class Passage(StrEnum):
    """The passages of records from one node to the next.

    Inside a task, by a Spark shuffle, as sorted runs that other tasks merge, or materialized for a later job.
    """

    PIPELINED = "streaming (pipelined)"
    SHUFFLED = "materialized (shuffled by key)"
    SORTED = "materialized (sorted runs, merged by ranges of the key)"
    BROADCAST = "materialized (written down, read by every task)"
    WRITTEN = "materialized (written down, read in ranges)"

    @property
    def spills(self) -> bool:
        """True if buffered rows may be spilled. Sorted runs are already the bytes of an output."""
        return self is not Passage.SORTED


@dataclass(frozen=True)
class Arrival:
    """The passage of records to a phase, its reason, and the stage in `explain` that buffers them, if there is one."""

    passage: Passage
    why: str
    stage: str = ""


STAYS = Arrival(Passage.PIPELINED, "records stay in the task that read them")


@dataclass(frozen=True)
class LocalPhase:
    """A part that processes records in the task that has them.

    Args:
        step: the step that runs.
        arrival: the passage of records to it.
        merge_paths: each input is a merge path of its own: true of a merge that keeps the order of its inputs.
        side_output: the exchange for its findings about passing records, with a single partition.
    """

    step: Step
    arrival: Arrival = STAYS
    merge_paths: bool = False
    side_output: ExchangeSpec | None = None


@dataclass(frozen=True)
class ExchangeSpec:
    """An exchange within a phase, and the operator that receives from it.

    Args:
        kind: the partitioning of rows.
        role: the role of the receiving operator.
        title: the name of the operator in `explain`.
        moved: the kind of rows that are exchanged, in words of `explain`.
        by: the partitioning in words of `explain`.
        keeps_single_partition: whether the exchange exists even with a single partition.
        provides: the records or values that the operator materializes for later jobs.
        step: the step of the receiving operator, if it is not the phase's own.
    """

    kind: ExchangeKind
    role: Role
    title: str
    moved: str
    by: str
    keeps_single_partition: bool = True
    provides: Values | None = None
    step: Step | None = None


def restored_order(place: str = "first record") -> ExchangeSpec:
    """The range exchange that restores record order by the place of `place`. One partition is already in order."""
    by = f"to the place of the {place}"
    return ExchangeSpec(ExchangeKind.RANGE, Role.ORDERED, "in order", "order", by, keeps_single_partition=False)


@dataclass(frozen=True)
class ShufflePhase:
    """A phase whose records are exchanged between tasks, and continue after the last exchange.

    Args:
        step: the step that runs.
        partitions: the number of partitions of its exchanges.
        arrival: the passage of records to the partitions.
        departs: the name of the sending operator in `explain`.
        exchanges: its exchanges, in order.
        co_partitioned: an input that an earlier job materialized in the same partitions.
        aspect: the addition to the node's name in `explain` if this is one of several phases.
    """

    step: Step
    partitions: int
    arrival: Arrival
    departs: str
    exchanges: tuple[ExchangeSpec, ...]
    co_partitioned: Rows | None = None
    aspect: str = ""

    @property
    def active_exchanges(self) -> tuple[ExchangeSpec, ...]:
        """The exchanges that are needed with this number of partitions."""
        return tuple(each for each in self.exchanges if each.keeps_single_partition or self.partitions > 1)


Phase = LocalPhase | ShufflePhase


class Sizes(Protocol):
    """The sizes from which a step computes its number of partitions. The number of cores is never among them."""

    def partitions(self, node: str, columns: int | None = None, growth: int = 1) -> int:
        """The number of partitions for a node's records, of `columns` columns if not all are needed.

        `growth` is the factor by which buffered records are larger.
        """

    def materialized_partitions(self, rows: Rows, growth: int = 1, co_partitioned: int = 0) -> int:
        """The number of partitions in which materialized records fit into tasks; 1 if each task can hold all of them.

        `growth` is the factor by which they are larger in memory, `co_partitioned` the bytes that each needs besides.
        """
