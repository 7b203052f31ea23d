"""What a task needs to know of its run: pickled once per job, unpickled once per worker process."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.cxl import types
    from spark_jobs.execute import spill
    from spark_jobs.nodes.operator import Counters
    from spark_jobs.nodes.source.split_origin import SplitInput
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan import plan, regions


#: At most so many splits are read by one task: opening files takes time, which others could share.
PACK_SPLITS = 500


@dataclass(frozen=True)
class JobSpec:
    """A job, as its tasks see it.

    Args:
        run: the execution id.
        job: operators and exchanges.
        steps: the sources' steps by name, in the order of their numbers.
        splits: what level 0 reads, one per task; (source name, split).
        widened: undeclared columns per source, and per output that writes them.
        widened_type: what undeclared columns hold: texts, or values of any kind when some source has such.
        values: run-wide values behind `$...`.
        strategy: what a failing record does.
        filed: the sources whose dead letters go to a file; None: all.
        named: so many of the others are named in the log.
        keep_texts: whether dead letters show the record's columns.
        scratch: the folder for parts that stay inside the run (dead letters, build sides), reachable from every
            machine.
        staging: for each output the folder for its part files, beside the final file.
        log_level: the level below which lines are not kept, as Python's logging numbers them.
        counts_only: whether level 0 only counts the records of its splits.
        materialized: files of earlier jobs by box id, in record order.
        memory_share: bytes of Arrow data that a task may hold.
        spill: where a task writes what is more.
        numbers: those of the splits and partitions that records can come from: home partitions share them.
        counted: what nodes counted in earlier jobs, as far as groups know of it and this job does not count it again.
        branches: those of all routes, with none before them; records know theirs by its number.
        pack_bytes: splits of a source that together have no more bytes than this are read by one task.
    """

    run: str
    job: regions.Job
    steps: Mapping[str, SourceStep]
    splits: tuple[tuple[str, SplitInput], ...]
    widened: Mapping[str, tuple[str, ...]]
    widened_type: types.Type
    values: Mapping[str, Any]
    strategy: plan.Strategy
    filed: frozenset[int] | None
    named: int
    keep_texts: bool
    scratch: str
    staging: Mapping[str, str]
    memory_share: int
    spill: spill.Settings
    log_level: int = 20
    counts_only: bool = False
    materialized: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: range = range(1)
    branches: tuple[str, ...] = ("",)
    counted: Mapping[str, Counters] = field(default_factory=dict)
    pack_bytes: int = 0

    @cached_property
    def packs(self) -> tuple[range, ...]:
        """The splits that a task of level 0 reads, by their places in `splits`: small files of a source share a task.

        Sizes and numbers alone decide, so results are the same on any cluster.
        """
        found: list[range] = []
        size, last = 0, None
        for i, (name, place) in enumerate(self.splits):
            length = place.split.end - place.split.start
            if name != last or size + length > self.pack_bytes or len(found[-1]) >= PACK_SPLITS:
                found.append(range(i, i))
                size, last = 0, name
            found[-1] = range(found[-1].start, i + 1)
            size += length
        return tuple(found)


def replace_splits(spec: JobSpec, splits: tuple[tuple[str, SplitInput], ...]) -> JobSpec:
    """The same job over other splits."""
    return replace(spec, splits=splits)
