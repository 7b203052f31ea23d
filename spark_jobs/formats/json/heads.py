"""Looks into the heads of a source's JSON files: each file's layout, and whether the declared columns are in it.

Whether the declared columns are right is mostly told by the first record of each file. Only files that leave a doubt
are read on, as far as that costs little.
"""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.formats import byte_stream, encoding, misread, reading, splits
from spark_jobs.formats.columns import FilePlan
from spark_jobs.formats.format import MOST_RECORD_BYTES, FileColumns, Reading
from spark_jobs.formats.json import parser
from spark_jobs.formats.json.exact.objects import Declared, Undeclared
from spark_jobs.formats.json.misread import foreign_records
from spark_jobs.formats.json.options import JsonLayout
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError
from spark_jobs.tuning import DEFAULT, Tuning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.columns import ColumnTracker
    from spark_jobs.formats.format import ArrayPath
    from spark_jobs.formats.json.options import JsonRead
    from spark_jobs.scan.files import InputFile

#: How much of a file is read to begin with.
HEAD_BYTES = 64 << 10
#: JSON records say which value belongs to which column.
_BY_NAME = FileColumns(0, ())
#: The most bytes of a source that are read only to check its declared columns; they take a fraction of a second.
DOUBT_BYTES = 8 << 20


def planned_layout(file_plan: FilePlan) -> JsonLayout:
    """The layout of the records of a file.

    Raises:
        FormatError: the file was planned as one of another format.
    """
    if not isinstance(file_plan.layout, JsonLayout):
        raise FormatError("the file was not planned as JSON; run the pipeline anew", file_plan.file.name)
    return file_plan.layout


@dataclass
class FileHead:
    """A file with the declared columns seen in it; `is_whole` tells that all its records were looked at."""

    plan: FilePlan
    columns: Declared
    is_whole: bool

    def has_records(self, declared: tuple[str, ...]) -> bool:
        """Whether the inspected part has a record."""
        return self.columns.foreign is not None or self.columns.missing != declared


@dataclass(frozen=True)
class _Head:
    """The beginning of a file as UTF-8, after so many blanks, and a digest of its beginning and its end."""

    data: bytes
    edges: int
    is_whole: bool
    blanks: int = 0


class Heads:
    """Looks into the files of a source."""

    def __init__(
        self,
        declared: tuple[str, ...],
        options: JsonRead,
        arrays: Sequence[ArrayPath],
        tuning: Tuning = DEFAULT,
        record_bytes: int = MOST_RECORD_BYTES,
    ) -> None:
        self.declared = declared
        self._tuning = tuning
        #: The undeclared names that were seen on the way.
        self.others: dict[str, None] = {}
        self._options = options
        self._arrays = tuple(arrays)
        self._leaves = Undeclared(declared)
        self._is_utf8 = encoding.is_utf8(options.encoding)
        self._readers: dict[JsonLayout, parser.JsonParser] = {}
        self._reading = Reading((), record_bytes=record_bytes)

    def look(self, file: InputFile) -> FileHead | None:
        """A file's layout and the columns in its head, or None when there is nothing in it."""
        head = self._head(file)
        start = byte_stream.records_start(head.data, is_marked=not head.blanks)
        if (problem := _no_text(head.data) if self._is_utf8 else None) is not None:
            raise FormatError(problem, file.name)
        layout = parser.layout_of(head.data[start:].decode("utf-8", "replace"), self._options, file.name)
        if layout is None:
            return None
        is_splittable = layout is JsonLayout.NDJSON and self._is_utf8
        plan = FilePlan(replace(file, edges=head.edges), _BY_NAME, head.blanks + start, is_splittable, layout)
        found = FileHead(plan, Declared(self.declared, self._leaves), head.is_whole)
        if self.declared:
            self._look_at_head(found, head.data[start:])
        return found

    def _head(self, file: InputFile) -> _Head:
        if self._is_utf8 and file.size <= HEAD_BYTES and not file.is_compressed:
            data = changes.content(file)
            return _Head(data, changes.edges_of(data), is_whole=True)
        with changes.opened(file) as raw:
            edges = raw.edges()
            stream = raw if self._is_utf8 else encoding.Utf8Stream(raw, self._options.encoding)
            data, blanks = stream.read(HEAD_BYTES), 0
            while data and not data.removeprefix(codecs.BOM_UTF8).strip():
                blanks += len(data)
                data = stream.read(HEAD_BYTES)
            return _Head(data, edges, is_whole=not stream.read(1), blanks=blanks)

    def _look_at_head(self, found: FileHead, head: bytes) -> None:
        if found.plan.layout is JsonLayout.NDJSON:
            # Mostly the first record has all columns, and there may be many small files.
            self._take(found, io.BytesIO(head[: head.find(b"\n") + 1]))
        if found.columns.missing:
            # It may be the beginning of an array that goes on after it.
            found.is_whole &= self._take(found, io.BytesIO(head))

    def look_through(self, found: FileHead) -> None:
        """Look at all records of a file."""
        plan = found.plan
        with changes.opened(plan.file) as raw:
            parts = (
                reading.bytes_of(split, plan, self._options.encoding, raw, reading.SplitOutcome())
                for split in splits.plan([plan])
            )
            found.is_whole = all(self._take(found, part) for part in parts)

    def _take(self, found: FileHead, stream: ByteStream) -> bool:
        """Look at records; false if they are broken or too long, which the real reading reports."""
        try:
            self._reader(planned_layout(found.plan)).look_for(found.columns, stream, found.plan.file.most_records)
        except (FormatError, byte_stream.TooLong):
            return False
        self.others.update(found.columns.others)
        found.columns.others = {}
        return True

    def _reader(self, layout: JsonLayout) -> parser.JsonParser:
        """Give the reader for all files of a layout; its errors are not reported."""
        if layout not in self._readers:
            self._readers[layout] = parser.JsonParser(
                "", layout, self._options, self._reading, self._arrays, tuning=self._tuning
            )
        return self._readers[layout]


def _no_text(head: bytes) -> str | None:
    """Say why a file cannot be JSON in UTF-8, by its first bytes; None where they do not tell."""
    if b"\0" in head[:2] or (head[:1] >= b"\x80" and not head.startswith(codecs.BOM_UTF8)):
        return misread.of_bytes(head) or f"a JSON file begins with [ or {{; {misread.encoding_hint(head)}"
    return misread.of_bytes(head)


def clear_doubts(looked: Sequence[FileHead], source: Heads) -> None:
    """Read on in files without any declared column, and in files that may have one that no file has so far."""
    left = DOUBT_BYTES
    nowhere = _in_all([found.columns.missing for found in looked])
    for found in looked:
        is_doubtful = nowhere or found.columns.foreign is not None
        file = found.plan.file
        if is_doubtful and not found.is_whole and file.size <= left and not file.is_compressed:
            left -= file.size
            source.look_through(found)
            nowhere &= set(found.columns.missing)


def report_missing(looked: Sequence[FileHead], source: Heads, tracker: ColumnTracker) -> None:
    """Note the files that certainly lack declared columns, and the warnings about them."""
    known = [found for found in looked if found.is_whole and found.has_records(source.declared)]
    for found in known:
        tracker.note_missing(found.columns.missing)
    foreign = [found for found in known if found.columns.foreign is not None]
    if foreign:
        first, record = foreign[0].plan.file.name, foreign[0].columns.foreign or {}
        tracker.warn(foreign_records(first, len(foreign) - 1, record, source.declared))
    if len(known) == len(foreign) or not all(found.is_whole or not found.columns.missing for found in looked):
        return
    nowhere = _in_all([found.columns.missing for found in looked if found.has_records(source.declared)])
    for column in source.declared:
        if column in nowhere:
            tracker.note_nowhere(column, misread.missing_member(column, source.others))


def _in_all(missing: Sequence[Sequence[str]]) -> set[str]:
    """The columns that are missing in every file."""
    return set(missing[0]).intersection(*missing[1:]) if missing else set()
