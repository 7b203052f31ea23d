"""The dead letters of a run whose passes were repeated: what each of them found that holds, each record once.

Entries of records count from the pass that found them; entries of aggregated rows count only in the last pass. A record
may have failed in several places, or have reached several outputs from which its group is rejected: only its first
entry is told. The result looks as if one pass had found it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.execute.letters import gather, reasons, runs
from spark_jobs.execute.letters.files import DRIVER_ENTRIES
from spark_jobs.execute.spark import spread
from spark_jobs.execute.tasks import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.letters.marks import Holding
    from spark_jobs.execute.tasks.spec import RunSpec

#: Tasks that share a larger number of entries.
_TASKS = 64
_HELD_BYTES = 16 << 20


@dataclass(frozen=True)
class Found:
    """The dead letters of a pass that hold: the files, and which of their entries."""

    letters: tuple[report.Letters, ...]
    holding: Holding


def settle(spark: SparkSession, run: RunSpec, found: Sequence[Found]) -> list[report.Letters]:
    """The dead letters that hold.

    Where all of them go to files they stay where they are, and are counted; else they are in files of their own.
    """
    letters = [replace(entry, holding=one.holding) for one in found for entry in one.letters if entry.path]
    if not letters:
        return []
    first = min(entry.splits[0] for entry in letters)
    last = max(entry.splits[1] for entry in letters)
    many = sum(entry.count for entry in letters) > DRIVER_ENTRIES
    size = max(1, -(-(last - first + 1) // _TASKS)) if many else last - first + 1
    stretches = [(start, start + size - 1) for start in range(first, last + 1, size)]
    settling = partial(_counted if run.filed is None else _written, run, letters)
    done = spread.spread(spark, settling, stretches) if many else [settling(stretch) for stretch in stretches]
    if run.filed is None:
        done += [replace(entry, count=0, per_source={}, per_category={}, per_stage={}, reasons=[]) for entry in letters]
    return [entry for entry in done if entry.count or entry.path]


def _counted(_: RunSpec, letters: Sequence[report.Letters], splits: tuple[int, int]) -> report.Letters:
    """How many entries name some splits."""
    found = report.Letters(0, {}, {}, {})
    merged = runs.of_letters(letters, splits, names_only=True)
    per_reason: dict[int, int] = {}
    why = reasons.Reasons()
    for part in merged.parts():
        found.count += part.num_rows
        gather.count(gather.sources_of(part), found.per_source)
        gather.count(part.column("reason").to_numpy(), per_reason)
        why.note(gather.noted(part), part.column("reason").to_numpy(), merged.whys)
    found.reasons = [*why.known.values()]
    found.per_category, found.per_stage = (
        gather.counts(merged.whys, per_reason, what) for what in ("category", "stage")
    )
    return found


def _written(run: RunSpec, letters: Sequence[report.Letters], splits: tuple[int, int]) -> report.Letters:
    """The entries that name some splits, in a file of their own; those that go to no dead-letter file are counted."""
    gathered = gather.Gathered(f"{run.scratch}/settled-{uuid.uuid4().hex}.arrow", run.filed, run.named, _HELD_BYTES)
    merged = runs.of_letters(letters, splits)
    for part in merged.parts():
        gathered.take(part, merged.whys)
    gathered.write()
    return report.letters(gathered)
