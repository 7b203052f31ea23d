"""The dead letters of a run with repeated passes: the entries of all passes that still hold, each record once.

Entries of records count from the pass that found them; entries of aggregated rows count only in the last pass. A record
may have failed in several places, or have reached several outputs from which its group is rejected: only its first
entry counts. The result looks as if one pass had found it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.execute.dlq import buffer, merge, reasons
from spark_jobs.execute.dlq.files import DRIVER_ENTRIES
from spark_jobs.execute.spark import spread
from spark_jobs.execute.tasks import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.dlq.marks import Holding
    from spark_jobs.execute.tasks.spec import RunSpec

#: Tasks that share a larger number of entries.
_TASKS = 64
_HELD_BYTES = 16 << 20


@dataclass(frozen=True)
class PassEntries:
    """The dead letters of a pass that hold: the files, and which of their entries."""

    reports: tuple[report.DlqReport, ...]
    holding: Holding


def merged_reports(spark: SparkSession, run: RunSpec, found: Sequence[PassEntries]) -> list[report.DlqReport]:
    """The dead letters that hold.

    Where all of them go to files they stay where they are, and are counted; else they are in files of their own.
    """
    reports = [replace(entry, holding=one.holding) for one in found for entry in one.reports if entry.path]
    if not reports:
        return []
    first = min(entry.splits[0] for entry in reports)
    last = max(entry.splits[1] for entry in reports)
    many = sum(entry.count for entry in reports) > DRIVER_ENTRIES
    size = max(1, -(-(last - first + 1) // _TASKS)) if many else last - first + 1
    ranges = [(start, start + size - 1) for start in range(first, last + 1, size)]
    merging = partial(_counted if run.filed is None else _written, run, reports)
    done = spread.spread(spark, merging, ranges) if many else [merging(splits) for splits in ranges]
    if run.filed is None:
        done += [replace(entry, count=0, per_source={}, per_category={}, per_stage={}, reasons=[]) for entry in reports]
    return [entry for entry in done if entry.count or entry.path]


def _counted(_: RunSpec, reports: Sequence[report.DlqReport], splits: tuple[int, int]) -> report.DlqReport:
    """How many entries name some splits."""
    found = report.DlqReport(0, {}, {}, {})
    merged = merge.of_reports(reports, splits, names_only=True)
    per_reason: dict[int, int] = {}
    why = reasons.Reasons()
    for part in merged.parts():
        found.count += part.num_rows
        buffer.count(buffer.sources_of(part), found.per_source)
        buffer.count(part.column("reason").to_numpy(), per_reason)
        why.note(buffer.noted(part), part.column("reason").to_numpy(), merged.whys)
    found.reasons = [*why.known.values()]
    found.per_category, found.per_stage = (
        buffer.counts(merged.whys, per_reason, what) for what in ("category", "stage")
    )
    return found


def _written(run: RunSpec, reports: Sequence[report.DlqReport], splits: tuple[int, int]) -> report.DlqReport:
    """The entries that name some splits, in a file of their own; those that go to no dead-letter file are counted."""
    dlq = buffer.DlqBuffer(f"{run.scratch}/settled-{uuid.uuid4().hex}.arrow", run.filed, run.named, _HELD_BYTES)
    merged = merge.of_reports(reports, splits)
    for part in merged.parts():
        dlq.take(part, merged.whys)
    dlq.write()
    return report.dlq_report(dlq)
