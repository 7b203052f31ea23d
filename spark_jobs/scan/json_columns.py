"""Plans the reading of a source's JSON files: each file's layout, and the undeclared leaves of all records.

JSON records bring their names along, so undeclared columns are known only when all records were seen. Where they are
to be carried or rejected, the files are read once for their names alone, part by part; the parts can be looked at
anywhere, for the first-seen order is that of the parts and within them. `drop` needs no such pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.cxl import types
from spark_jobs.formats import encoding, json_exact, json_reader
from spark_jobs.formats.format import FileColumns, Reading, SourceColumn
from spark_jobs.formats.options import JsonLayout
from spark_jobs.scan import changes, columns, csv_head, reading, splits
from spark_jobs.scan.columns import FilePlan, OnUnmapped, ScanPlan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.formats.json_records import ArrayPath
    from spark_jobs.formats.options import JsonOptions
    from spark_jobs.scan.files import InputFile

_HEAD_BYTES = 64 << 10


@dataclass(frozen=True)
class Part:
    """A part of a file whose names are looked for."""

    split: splits.Split
    file_plan: FilePlan
    declared: tuple[str, ...]
    options: JsonOptions
    arrays: tuple[ArrayPath, ...]


#: Looks for the names of some parts, wherever that is done: `names_of` for each, in their order.
Search = Callable[[Sequence[Part]], list[tuple[str, ...]]]


def names_of(part: Part) -> tuple[str, ...]:
    """The undeclared leaves of a part's records in first-seen order.

    Raises:
        FormatError: the file cannot be read, changed (E907), or is broken.
    """
    wanted = Reading(tuple(SourceColumn(name, types.ANY) for name in part.declared))
    layout = reading.layout_of(part.file_plan)
    reader = json_reader.JsonReader(part.file_plan.file.name, layout, part.options, wanted, part.arrays)
    with changes.opened(part.file_plan.file) as raw:
        stream = reading.bytes_of(part.split, part.file_plan, part.options.encoding, raw, reading.SplitOutcome())
        return tuple(reader.keys(stream, part.file_plan.file.most_records))


def search_here(parts: Sequence[Part]) -> list[tuple[str, ...]]:
    """Look for names in this process, several parts at a time: most of the work is Arrow's."""
    if len(parts) < 2:
        return [names_of(part) for part in parts]
    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
        return list(pool.map(names_of, parts))


def plan_json(
    declared: Sequence[str],
    inputs: Iterable[InputFile],
    options: JsonOptions,
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
    arrays: Sequence[ArrayPath] = (),
    search: Search = search_here,
) -> ScanPlan:
    """Find out the layout of a source's JSON files and, unless they are dropped, their undeclared columns.

    Raises:
        FormatError: a file cannot be read or is broken, or an undeclared column is rejected.
    """
    tracker = columns.ColumnTracker(declared, on_unmapped)
    plans: list[FilePlan] = []
    skipped: list[str] = []
    for file in inputs:
        plan = _plan_file(file, options)
        if plan is None:
            skipped.append(file.name)
        else:
            plans.append(plan)
    if on_unmapped is not OnUnmapped.DROP:
        parts = [
            Part(split, plans[split.file], tuple(declared), options, tuple(arrays)) for split in splits.plan(plans)
        ]
        for part, names in zip(parts, search(parts), strict=True):
            for name in names:
                tracker.note_undeclared(part.file_plan.file.name, name)
    return tracker.plan(tuple(plans), skipped, json_exact.WIDENED_TYPE)


def _plan_file(file: InputFile, options: JsonOptions) -> FilePlan | None:
    """A file's layout, or None when there is nothing in it."""
    with changes.opened(file) as raw:
        file = replace(file, edges=raw.edges())
        raw.seek(0)
        stream = raw if encoding.is_utf8(options.encoding) else encoding.Utf8Stream(raw, options.encoding)
        head = b""
        while not head.strip() and (chunk := stream.read(_HEAD_BYTES)):
            head += chunk
    start = csv_head.records_start(head)
    layout = json_reader.layout_of(head[start:].decode("utf-8", "replace"), options, file.name)
    if layout is None:
        return None
    is_splittable = layout is JsonLayout.NDJSON and encoding.is_utf8(options.encoding)
    return FilePlan(file, FileColumns(0, ()), start, is_splittable, layout)
