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

import numpy as np

from spark_jobs.execute import report
from spark_jobs.execute.correlation.facts import FactKind
from spark_jobs.execute.correlation.state import column
from spark_jobs.execute.dlq import buffer, merge, reasons
from spark_jobs.execute.spark import spread
from spark_jobs.nodes.records import identity
from spark_jobs.nodes.records.identity import NO_ROW, record_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from spark_jobs.execute.tasks.spec import RunSpec

#: Tasks that share a larger number of entries.
_HELD_BYTES = 16 << 20


@dataclass(frozen=True)
class EntryFilter:
    """The entries of a pass that count.

    Args:
        kinds: the kinds of entries.
        records: a file with the numbers of the records whose entries count; None if all do.
        rows: a file with the numbers of the aggregate rows whose entries count; None if all do.
        nodes: the nodes, by their numbers in facts, at which these rows may have failed. Elsewhere they were not made.
    """

    kinds: tuple[int, ...]
    records: str | None = None
    rows: str | None = None
    nodes: tuple[int, ...] = ()

    def __call__(self, entries: pa.Table) -> np.ndarray:
        """A mask of the entries that count."""
        kinds = entries.column("kind").to_numpy()
        found: np.ndarray = np.isin(kinds, self.kinds)
        if self.records is not None:
            own, causing = (
                record_numbers(entries.column(split), entries.column(row))
                for split, row in (("split", "row"), ("cause_split", "cause_row"))
            )
            failed = np.where(entries.column("cause_split").to_numpy() >= 0, causing, own)
            known = column(self.records, "record").to_numpy()
            found &= (kinds != FactKind.FAILURE) | (identity.sorted_index(failed, known) >= 0)
        if self.rows is not None:
            own, causing = (entries.column(name).to_numpy() for name in ("group", "cause_group"))
            known = column(self.rows, "number").to_numpy()
            are_known = identity.sorted_index(np.where(causing != NO_ROW, causing, own), known) >= 0
            are_known &= np.isin(entries.column("node").to_numpy(), self.nodes)
            found &= (kinds != FactKind.ROW_FAILURE) | are_known
        return found


#: All entries of the last pass count.
EVERYTHING = EntryFilter(tuple(int(each) for each in FactKind))


@dataclass(frozen=True)
class PassEntries:
    """The dead letters of a pass: their files, and the filter of the entries that count."""

    reports: tuple[report.DlqReport, ...]
    count: EntryFilter


def merged_reports(spark: SparkSession, run: RunSpec, found: Sequence[PassEntries]) -> list[report.DlqReport]:
    """The dead letters that count.

    If all of them go to files they stay where they are, and are counted; otherwise they are written to new files.
    """
    reports = [replace(entry, counts=one.count) for one in found for entry in one.reports if entry.path]
    if not reports:
        return []
    first = min(entry.splits[0] for entry in reports)
    last = max(entry.splits[1] for entry in reports)
    many = sum(entry.count for entry in reports) > run.tuning.driver_dlq_rows
    size = max(1, -(-(last - first + 1) // (run.tuning.dlq_tasks if many else 1)))
    ranges = [(start, start + size - 1) for start in range(first, last + 1, size)]
    merging = partial(_counted if run.filed is None else _written, run, reports)
    done = spread.parallel_map(spark, merging, ranges) if many else [merging(splits) for splits in ranges]
    if run.filed is None:
        done += [
            replace(entry, count=0, per_source={}, per_category={}, per_stage={}, reasons=[], per_rule=[])
            for entry in reports
        ]
    return [entry for entry in done if entry.count or entry.path]


def _counted(_: RunSpec, reports: Sequence[report.DlqReport], splits: tuple[int, int]) -> report.DlqReport:
    """The number of entries that name one of the given splits."""
    found = report.DlqReport(0, {}, {}, {})
    merged = merge.of_reports(reports, splits, names_only=True)
    per_reason: dict[int, int] = {}
    why = reasons.Reasons()
    for part in merged.parts():
        found.count += part.num_rows
        buffer.count(buffer.sources_of(part), found.per_source)
        buffer.count(part.column("reason").to_numpy(), per_reason)
        why.note(buffer.reason_columns(part), part.column("reason").to_numpy(), merged.whys)
    found.reasons = [*why.known.values()]
    found.per_category, found.per_stage = (
        buffer.counts(merged.whys, per_reason, what) for what in ("category", "stage")
    )
    found.per_rule = buffer.rule_counts(merged.whys, per_reason)
    return found


def _written(run: RunSpec, reports: Sequence[report.DlqReport], splits: tuple[int, int]) -> report.DlqReport:
    """Write the entries that name some splits to a new file. Entries that go to no dead-letter file are counted."""
    dlq = buffer.DlqBuffer(
        run.scratch.file(f"dlq-{uuid.uuid4().hex}.arrow"), run.filed, run.named, _HELD_BYTES, run.tuning
    )
    merged = merge.of_reports(reports, splits)
    for part in merged.parts():
        dlq.take(part, merged.whys)
    dlq.write()
    return report.dlq_report(dlq)
