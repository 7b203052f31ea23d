"""The specification of a job for its tasks: pickled once per job, unpickled once per worker process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.execute.correlation.state import PassState
from spark_jobs.tuning import Tuning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.execute.delivery.destination import Parts
    from spark_jobs.execute.scratch import Scratch
    from spark_jobs.execute.tasks import spill
    from spark_jobs.execute.tasks.materialized import MaterializedFile
    from spark_jobs.execute.tasks.task_inputs import Load
    from spark_jobs.nodes.correlation import CorrelationPlan, NodeCorrelation
    from spark_jobs.nodes.records import guarded
    from spark_jobs.nodes.records.ledger import Counters
    from spark_jobs.nodes.source.record_origin import Places
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.nodes.terms.needs import Need
    from spark_jobs.plan import plan
    from spark_jobs.plan.physical import fragments


@dataclass(frozen=True)
class RunSpec:
    """The specification of a run that all of its jobs share.

    Args:
        steps: the sources' steps by name, in the order of their numbers.
        undeclared: the undeclared columns that records carry, by node.
        undeclared_type: what undeclared columns hold: texts, or values of any kind when some source has such.
        strategy: the effect of a failing record.
        filed: the sources whose dead letters go to a file; None: all.
        named: so many of the others are named in the log.
        keep_texts: whether dead letters show the record's columns.
        scratch: where the files lie that stay inside the run (dead letters, build sides).
        parts: where the parts of outputs go.
        memory_share: bytes of Arrow data that a task may hold.
        spill: where a task spills.
        log_level: the level below which lines are not kept, as Python's logging numbers them.
        branches: the branches of all routes, after an empty one; records refer to them by number.
        pack_bytes: splits of a source that together have no more bytes than this are read by one task.
        correlation: which correlation groups rows belong to; None if no source has a key.
        guards: the values that must not be shown at nodes that credentials have gone into.
        tuning: how much is worked on at once.
    """

    steps: Mapping[str, SourceStep]
    undeclared: Mapping[str, tuple[str, ...]]
    undeclared_type: types.Type
    strategy: plan.Strategy
    filed: frozenset[int] | None
    named: int
    keep_texts: bool
    scratch: Scratch
    parts: Parts
    memory_share: int
    spill: spill.Settings
    log_level: int
    branches: tuple[str, ...]
    pack_bytes: int
    correlation: CorrelationPlan | None = None
    guards: Mapping[str, guarded.Guard] = field(default_factory=dict)
    tuning: Tuning = field(default_factory=Tuning)

    @property
    def node_correlations(self) -> Mapping[str, NodeCorrelation]:
        """Correlation at each node, by name; empty if no source has a key."""
        return self.correlation.nodes if self.correlation is not None else {}


@dataclass(frozen=True)
class JobSpec:
    """A job of a pass, as its tasks see it.

    Args:
        run: the settings that all jobs share.
        job: operators and exchanges.
        loads: the loads of stage 0, one per task.
        values: the run-wide values of `$...`.
        measures_only: whether stage 0 only measures its splits.
        state: the initial state of the pass.
        materialized: files of earlier jobs by their need, in record order.
        numbers: the numbers of the splits, materialized ranges and partitions from which records can come.
        departing: the numbers among these whose records are sent to an exchange: range partitions divide them.
        places: what is known of splits by their numbers, for records that an exchange brought.
        shares: a group with n records anywhere has at least n / `shares` of them in one task, or among the dead ones.
        notes_groups: whether tasks tell of which correlation groups they have read records.
        counted: what nodes counted in earlier jobs, as far as groups know of it and this job does not count it again.
        progress: the folder in which processes count how far they are; empty if nobody looks.
    """

    run: RunSpec
    job: fragments.Job
    loads: Sequence[Load]
    values: Mapping[str, Any]
    measures_only: bool = False
    state: PassState = field(default_factory=PassState)
    materialized: Mapping[Need, tuple[MaterializedFile, ...]] = field(default_factory=dict)
    numbers: range = range(1)
    departing: range = range(1)
    places: Places | None = None
    shares: int = 1
    notes_groups: bool = False
    counted: Mapping[str, Counters] = field(default_factory=dict)
    progress: str = ""
