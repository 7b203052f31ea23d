"""Writes a run's dead-letter files: a few entries here, many by tasks of their own, each for a range of the input."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.disk import durable
from spark_jobs.execute.delivery import destination
from spark_jobs.execute.dlq.writer import dlq_files_of
from spark_jobs.execute.spark import spread
from spark_jobs.nodes.output import packed
from spark_jobs.scan import compression
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import Draft, PartRange, PartStore
    from spark_jobs.execute.dlq.writer import DlqFile, DlqWriter
    from spark_jobs.execute.report import DlqReport
    from spark_jobs.stores.location import FilePath
    from spark_jobs.tuning import Tuning


@dataclass(frozen=True)
class EntryRange:
    """The entries that name some splits: the reports of their tasks, and each file's part for their rows.

    `number` is the range's number among all ranges.
    """

    number: int
    splits: tuple[int, int]
    reports: tuple[DlqReport, ...]
    parts: tuple[str, ...]


def deliver(
    spark: SparkSession,
    writer: DlqWriter,
    reports: Sequence[DlqReport],
    paths: Mapping[str, FilePath],
    draft: Draft[FilePath],
    tuning: Tuning,
) -> tuple[str, ...]:
    """The dead-letter files of a run, in place of an older run's. Returns the paths of those that have entries.

    The common one is the first.

    Args:
        spark: runs tasks, where there is much to write.
        writer: makes the rows.
        reports: the reports of the tasks that have entries.
        paths: each source's own file, and the common one under `""`.
        draft: gets the files.
        tuning: how many entries the driver writes itself, and how many tasks share more.
    """
    names = {source: str(path) for source, path in paths.items()}
    files = dlq_files_of(writer.errors, writer.inputs, names)
    written: list[str] = []
    for file, parts in zip(files, write(spark, writer, files, reports, draft, tuning), strict=True):
        if parts:
            header = packed.pack(writer.header(file), compression.of_name(file.path))
            content = destination.Content(tuple(parts), header, uses_up=True)
            draft.assemble(location.located(file.path), content)
            written.append(file.path)
        else:
            draft.remove(location.located(file.path))
    return tuple(sorted(written, key=lambda path: path != names.get("")))


def write(
    spark: SparkSession,
    writer: DlqWriter,
    files: Sequence[DlqFile],
    reports: Sequence[DlqReport],
    draft: Draft[FilePath],
    tuning: Tuning,
) -> list[list[PartRange]]:
    """Write the rows of all dead letters. Returns the parts of each file, in record order."""
    found = [entry for entry in reports if entry.path]
    if not files or not found:
        return [[] for _ in files]
    many = sum(entry.count for entry in reports) > tuning.driver_dlq_rows
    folders = [draft.parts(location.located(file.path)) for file in files]
    ranges = _ranges(found, folders, tuning.dlq_tasks if many else 1)
    writing = partial(_write_range, draft.part_store, writer, tuple(files))
    if not many:
        written = [writing(each) for each in ranges]
    else:
        written = spread.parallel_map(spark, writing, ranges)
    return [[parts[i] for parts in written if parts[i].size] for i in range(len(files))]


def _ranges(reports: Sequence[DlqReport], folders: Sequence[str], most: int) -> tuple[EntryRange, ...]:
    """The splits that entries name, cut into at most so many ranges of about as many splits."""
    first = min(entry.splits[0] for entry in reports)
    last = max(entry.splits[1] for entry in reports)
    size = max(1, -(-(last - first + 1) // most))
    ranges: list[EntryRange] = []
    for start in range(first, last + 1, size):
        splits = (start, start + size - 1)
        found = [each for each in reports if each.splits[0] <= splits[1] and each.splits[1] >= splits[0]]
        if found:
            parts = [f"{folder}/dlq-{len(ranges)}-{i}" for i, folder in enumerate(folders)]
            ranges.append(EntryRange(len(ranges), splits, tuple(found), tuple(parts)))
    return tuple(ranges)


def _write_range(
    part_store: PartStore, writer: DlqWriter, files: Sequence[DlqFile], wanted: EntryRange
) -> list[PartRange]:
    """Write the rows of a range. Returns the part of each file, which has another path when a task tries again."""
    ranges = []
    for file, part in zip(files, wanted.parts, strict=True):
        path = f"{part}.{uuid.uuid4().hex}.rows"
        with durable.about(path), part_store.create(path) as out:
            rows = packed.PackedFile(out, compression.of_name(file.path))
            writer.write(file, wanted.reports, wanted.splits, rows, wanted.number)
            size = rows.finish()
        ranges.append(destination.whole(path, size))
    return ranges
