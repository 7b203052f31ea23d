"""Plans the reading of a source's JSON files: each file's layout, and the undeclared leaves of all records.

JSON records bring their names along, so undeclared columns are known only when all records were seen. Where they are
to be carried or rejected, the files are read once for their names alone, part by part; the parts can be looked at
anywhere, for the first-seen order is that of the parts and within them. `drop` needs no such pass.

Whether the declared columns are right is mostly told by the first record of each file. Only files that leave a doubt
are read on, as far as that costs little.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.cxl import types
from spark_jobs.formats import encoding
from spark_jobs.formats.format import FileColumns, FormatError, Reading, SourceColumn
from spark_jobs.formats.json import exact, parser, portions, undeclared
from spark_jobs.formats.json.members import Declared, Undeclared
from spark_jobs.formats.options import JsonLayout
from spark_jobs.scan import changes, columns, csv_head, misread, reading, splits
from spark_jobs.scan.columns import FilePlan, OnUnmapped, ScanPlan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.formats.json.members import ArrayPath
    from spark_jobs.formats.options import JsonOptions
    from spark_jobs.formats.stretch import ByteStream
    from spark_jobs.scan.files import InputFile

_HEAD_BYTES = 64 << 10
#: JSON records say which value belongs to which column.
_BY_NAME = FileColumns(0, ())
#: So many bytes of a source are read for its declared columns alone: a fraction of a second.
DOUBT_BYTES = 8 << 20


@dataclass(frozen=True)
class Part:
    """A part of a file whose names are looked for."""

    split: splits.Split
    file_plan: FilePlan
    declared: tuple[str, ...]
    options: JsonOptions
    arrays: tuple[ArrayPath, ...]

    @property
    def is_small(self) -> bool:
        """Whether it is a file of few lines, which is looked at together with others."""
        return (
            self.split.index == 0
            and self.split.is_last
            and self.split.end - self.split.start <= _HEAD_BYTES
            and self.file_plan.is_splittable
            and self.file_plan.file.most_records is None
            and not self.arrays
        )


#: Looks for the names of some parts, wherever that is done: `names_of` for all, in any groups of neighbours.
Search = Callable[[Sequence[Part]], list[tuple[str, ...]]]


def names_of(parts: Sequence[Part]) -> list[tuple[str, ...]]:
    """The undeclared leaves of each part's records in first-seen order; those of parts before it may be left out.

    Raises:
        FormatError: a file cannot be read, changed (E907), or is broken.
    """
    return [names for group in _groups(parts) for names in _names_of_group(group)]


def _groups(parts: Sequence[Part]) -> list[list[Part]]:
    """The parts in their order: small neighbours together, others alone."""
    groups: list[list[Part]] = []
    left = -1
    for part in parts:
        size = part.split.end - part.split.start
        if not part.is_small or size > left:
            groups.append([])
            left = portions.PORTION_BYTES if part.is_small else -1
        groups[-1].append(part)
        left -= size
    return groups


def _names_of_group(parts: Sequence[Part]) -> list[tuple[str, ...]]:
    if not parts[0].is_small:
        return [_names_of_one(parts[0])]
    files = [changes.content(part.file_plan.file)[part.file_plan.data_start :] for part in parts]
    return undeclared.Names(parts[0].declared).add_files(files)


def _names_of_one(part: Part) -> tuple[str, ...]:
    wanted = Reading(tuple(SourceColumn(name, types.ANY) for name in part.declared))
    layout = reading.layout_of(part.file_plan)
    reader = parser.JsonParser(part.file_plan.file.name, layout, part.options, wanted, part.arrays)
    with changes.opened(part.file_plan.file) as raw:
        stream = reading.bytes_of(part.split, part.file_plan, part.options.encoding, raw, reading.SplitOutcome())
        return tuple(reader.keys(stream, part.file_plan.file.most_records))


def search_here(parts: Sequence[Part]) -> list[tuple[str, ...]]:
    """Look for names in this process, several parts at a time: most of the work is Arrow's."""
    groups = _groups(parts)
    if len(groups) < 2:
        return names_of(parts)
    with ThreadPoolExecutor(min(len(groups), os.cpu_count() or 1)) as pool:
        return [names for found in pool.map(_names_of_group, groups) for names in found]


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
    source = _Source(tuple(declared), options, arrays)
    tracker = columns.ColumnTracker(declared, on_unmapped)
    looked: list[_Looked] = []
    skipped: list[str] = []
    for file in inputs:
        found = source.look(file)
        if found is None:
            skipped.append(file.name)
        else:
            looked.append(found)
    _clear_doubts(looked, source)
    _tell(looked, source, tracker)
    plans = [found.plan for found in looked]
    if on_unmapped is not OnUnmapped.DROP:
        parts = [
            Part(split, plans[split.file], tuple(declared), options, tuple(arrays)) for split in splits.plan(plans)
        ]
        for part, names in zip(parts, search(parts), strict=True):
            for name in names:
                tracker.note_undeclared(part.file_plan.file.name, name)
    return tracker.plan(tuple(plans), skipped, exact.WIDENED_TYPE)


@dataclass
class _Looked:
    """A file with the declared columns seen in it; `is_whole` tells that all its records were looked at."""

    plan: FilePlan
    columns: Declared
    is_whole: bool

    def has_records(self, declared: tuple[str, ...]) -> bool:
        """Whether there was a record among what was looked at."""
        return self.columns.foreign is not None or self.columns.missing != declared


@dataclass(frozen=True)
class _Head:
    """The beginning of a file as UTF-8, and a digest of its beginning and its end."""

    data: bytes
    edges: int
    is_whole: bool


class _Source:
    """Looks into the files of a source."""

    def __init__(self, declared: tuple[str, ...], options: JsonOptions, arrays: Sequence[ArrayPath]) -> None:
        self.declared = declared
        #: The undeclared names that were seen on the way.
        self.others: dict[str, None] = {}
        self._options = options
        self._arrays = tuple(arrays)
        self._leaves = Undeclared(declared)
        self._is_utf8 = encoding.is_utf8(options.encoding)
        self._readers: dict[JsonLayout, parser.JsonParser] = {}

    def look(self, file: InputFile) -> _Looked | None:
        """A file's layout and the columns in its head, or None when there is nothing in it."""
        head = self._head(file)
        start = csv_head.records_start(head.data)
        layout = parser.layout_of(head.data[start:].decode("utf-8", "replace"), self._options, file.name)
        if layout is None:
            return None
        is_splittable = layout is JsonLayout.NDJSON and self._is_utf8
        plan = FilePlan(replace(file, edges=head.edges), _BY_NAME, start, is_splittable, layout)
        found = _Looked(plan, Declared(self.declared, self._leaves), head.is_whole)
        if self.declared:
            self._look_at_head(found, head.data[start:])
        return found

    def _head(self, file: InputFile) -> _Head:
        if self._is_utf8 and file.size <= _HEAD_BYTES:
            data = changes.content(file)
            return _Head(data, changes.edges_of(data), is_whole=True)
        with changes.opened(file) as raw:
            edges = raw.edges()
            stream = raw if self._is_utf8 else encoding.Utf8Stream(raw, self._options.encoding)
            data = b""
            while not data.strip() and (chunk := stream.read(_HEAD_BYTES)):
                data += chunk
            return _Head(data, edges, is_whole=not stream.read(1))

    def _look_at_head(self, found: _Looked, head: bytes) -> None:
        if found.plan.layout is JsonLayout.NDJSON:
            # Mostly the first record has all columns, and there may be many small files.
            self._take(found, io.BytesIO(head[: head.find(b"\n") + 1]))
        if found.columns.missing:
            # It may be the beginning of an array that goes on behind it.
            found.is_whole &= self._take(found, io.BytesIO(head))

    def look_through(self, found: _Looked) -> None:
        """Look at all records of a file."""
        plan = found.plan
        with changes.opened(plan.file) as raw:
            parts = (
                reading.bytes_of(split, plan, self._options.encoding, raw, reading.SplitOutcome())
                for split in splits.plan([plan])
            )
            found.is_whole = all(self._take(found, part) for part in parts)

    def _take(self, found: _Looked, stream: ByteStream) -> bool:
        """Look at records; false if they are broken, which is for those to tell who read them in earnest."""
        try:
            self._reader(reading.layout_of(found.plan)).look_for(found.columns, stream, found.plan.file.most_records)
        except FormatError:
            return False
        self.others.update(found.columns.others)
        found.columns.others = {}
        return True

    def _reader(self, layout: JsonLayout) -> parser.JsonParser:
        """The reader of all files of a layout: nobody is told what it says of one."""
        if layout not in self._readers:
            self._readers[layout] = parser.JsonParser("", layout, self._options, Reading(()), self._arrays)
        return self._readers[layout]


def _clear_doubts(looked: Sequence[_Looked], source: _Source) -> None:
    """Read those files on that could have a declared column which none has so far, or that have no declared one."""
    left = DOUBT_BYTES
    nowhere = _in_all([found.columns.missing for found in looked])
    for found in looked:
        is_doubtful = nowhere or found.columns.foreign is not None
        if is_doubtful and not found.is_whole and found.plan.file.size <= left:
            left -= found.plan.file.size
            source.look_through(found)
            nowhere &= set(found.columns.missing)


def _tell(looked: Sequence[_Looked], source: _Source, tracker: columns.ColumnTracker) -> None:
    """Note which files surely lack declared columns, and what there is to say of that."""
    known = [found for found in looked if found.is_whole and found.has_records(source.declared)]
    for found in known:
        tracker.note_missing(found.columns.missing)
    foreign = [found for found in known if found.columns.foreign is not None]
    if foreign:
        first, record = foreign[0].plan.file.name, foreign[0].columns.foreign or {}
        tracker.warn(misread.foreign_records(first, len(foreign) - 1, record, source.declared))
    if len(known) == len(foreign) or not all(found.is_whole or not found.columns.missing for found in looked):
        return
    nowhere = _in_all([found.columns.missing for found in looked if found.has_records(source.declared)])
    for column in source.declared:
        if column in nowhere:
            tracker.warn(misread.missing_member(column, source.others))


def _in_all(missing: Sequence[Sequence[str]]) -> set[str]:
    """The columns that are missing in every file."""
    return set(missing[0]).intersection(*missing[1:]) if missing else set()
