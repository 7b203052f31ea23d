"""Plans the reading of a source's JSON files: each file's layout, and the undeclared leaves of all records.

JSON records bring their names along, so undeclared columns are known only when all records were seen. Where they are
to be carried or rejected, the files are read once for their names alone; `drop` needs no such pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.cxl import types
from spark_jobs.formats import encoding, json_exact, json_reader
from spark_jobs.formats.format import FileColumns, Reading, SourceColumn
from spark_jobs.formats.options import JsonLayout
from spark_jobs.scan import changes, columns, csv_head
from spark_jobs.scan.columns import FilePlan, OnUnmapped, ScanPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_jobs.formats.csv_pieces import ByteStream
    from spark_jobs.formats.json_records import ArrayPath
    from spark_jobs.formats.options import JsonOptions
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile

_HEAD_BYTES = 64 << 10


def plan_json(
    declared: Sequence[str],
    inputs: Iterable[InputFile],
    options: JsonOptions,
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
    arrays: Sequence[ArrayPath] = (),
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
            continue
        plans.append(plan)
        if on_unmapped is not OnUnmapped.DROP:
            for name in _undeclared(plan, declared, options, arrays):
                tracker.note_undeclared(file.name, name)
    return tracker.plan(tuple(plans), skipped, json_exact.WIDENED_TYPE)


def _plan_file(file: InputFile, options: JsonOptions) -> FilePlan | None:
    """A file's layout, or None when there is nothing in it."""
    with changes.opened(file) as raw:
        file = replace(file, edges=raw.edges())
        stream = _as_utf8(raw, options)
        head = b""
        while not head.strip() and (chunk := stream.read(_HEAD_BYTES)):
            head += chunk
    start = csv_head.records_start(head)
    layout = json_reader.layout_of(head[start:].decode("utf-8", "replace"), options, file.name)
    if layout is None:
        return None
    is_splittable = layout is JsonLayout.NDJSON and encoding.is_utf8(options.encoding)
    return FilePlan(file, FileColumns(0, ()), start, is_splittable, layout)


def _undeclared(
    plan: FilePlan, declared: Sequence[str], options: JsonOptions, arrays: Sequence[ArrayPath]
) -> Iterable[str]:
    assert plan.layout is not None
    wanted = Reading(tuple(SourceColumn(name, types.ANY) for name in declared))
    reader = json_reader.JsonReader(plan.file.name, plan.layout, options, wanted, arrays)
    with changes.opened(plan.file) as raw:
        return reader.keys(_as_utf8(raw, options, plan.data_start), plan.file.most_records)


def _as_utf8(raw: Stream, options: JsonOptions, start: int = 0) -> ByteStream:
    if not encoding.is_utf8(options.encoding):
        return encoding.Utf8Stream(raw, options.encoding, start)
    raw.seek(start)
    stream: ByteStream = raw
    return stream
