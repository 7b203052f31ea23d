"""The XML files of a source: undeclared names found, records read.

A file is one split, because the start of an element can be recognized only by reading from the file's start. As in
JSON, each record has its own names, so files are read once for names alone if undeclared columns are carried or
rejected.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.formats import misread, reader, reading, splits
from spark_jobs.formats.coerce import UnfitSection
from spark_jobs.formats.columns import FilePlan, too_many
from spark_jobs.formats.format import ArrayPath, FileColumns
from spark_jobs.formats.names import Part
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.formats.xml import charset, columns, sections
from spark_jobs.formats.xml.document import Document, DocumentChunk, PathMatcher, RecordMatcher
from spark_jobs.formats.xml.exact import tree
from spark_jobs.formats.xml.fast.shapes import Shapes
from spark_jobs.limits import FILE_COLUMNS
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.columns import ColumnTracker
    from spark_jobs.formats.format import Block, Reading, SourceColumn
    from spark_jobs.formats.names import Search
    from spark_jobs.formats.splits import Split
    from spark_jobs.formats.xml.document import Records
    from spark_jobs.formats.xml.exact.tree import Tree
    from spark_jobs.formats.xml.options import XmlRead
    from spark_jobs.scan.files import InputFile

#: The bytes of a file that are searched for the declared columns.
HEAD_BYTES = 64 << 10
_CHUNK_BYTES = 1 << 20
#: The bytes to read at once for each record of a block, if a block has few records.
_ROW_BYTES = 16
_FEWEST_BYTES = 4 << 10
#: Records say which value belongs to which column.
_BY_NAME = FileColumns(0, ())


@dataclass(frozen=True)
class XmlReader(reader.Reader):
    """Reads XML files.

    Args:
        wholes: what declared columns are called in the files that hold all that is in an element.
    """

    options: XmlRead
    wholes: frozenset[str] = frozenset()

    undeclared_type: ClassVar[types.Type] = columns.UNDECLARED_TYPE

    def knowing(self, declared: Sequence[SourceColumn]) -> XmlReader:
        """The reader that knows which columns hold more than texts."""
        return replace(self, wholes=frozenset(one.key for one in declared if one.type.kind in columns.WHOLE))

    def look(
        self, inputs: Iterable[InputFile], declared: Sequence[str], tracker: ColumnTracker
    ) -> tuple[list[FilePlan], list[str]]:
        """Look whether the files have the declared columns, as far as their beginnings tell."""
        looked = [self._look(file) for file in inputs]
        found = [one for one in looked if not one.is_nothing]
        _report_missing(found, tuple(declared), tracker)
        return [one.plan for one in found], [one.plan.file.name for one in looked if one.is_nothing]

    def note_undeclared(
        self, tracker: ColumnTracker, plans: list[FilePlan], declared: Sequence[str], search: Search
    ) -> list[FilePlan]:
        """Note the undeclared columns of all records; returns the plans that know which of them are arrays."""
        parts = [Part(split, plans[split.file], tuple(declared)) for split in splits.plan(plans)]
        ways = search(self, parts)
        found = tree.Undeclared(declared, (way for of_part in ways for way in of_part))
        for part, of_part in zip(parts, ways, strict=True):
            for way in of_part:
                if (name := found.column(way)) is not None:
                    tracker.note_undeclared(part.file_plan.file.name, name)
        return [replace(plan, arrays=found.arrays) for plan in plans]

    def _look(self, file: InputFile) -> _Looked:
        with changes.opened(file) as raw:
            edges = raw.edges()
            head = raw.read(HEAD_BYTES)
            is_whole = not raw.read(1)
        plan = FilePlan(replace(file, edges=edges), _BY_NAME, 0, is_splittable=False)
        found = _Looked(plan, is_whole, is_whole and charset.is_blank(head, self.options.encoding))
        if is_whole and not found.is_nothing:
            try:
                for record in self._trees(plan):
                    found.note(record)
            except FormatError:
                # The error is reported when the file is actually read.
                found.is_whole = False
        return found

    def names(self, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        """The ways to the undeclared texts of each part's records in first-seen order; see `tree.Undeclared`."""
        found = []
        for part in parts:
            declared = frozenset(part.declared)
            mine: dict[str, None] = {}
            for record in self._trees(part.file_plan, Shapes()):
                mine.update(dict.fromkeys(tree.undeclared(record, declared, self.wholes)))
                if len(mine) > FILE_COLUMNS:
                    raise too_many(part.file_plan.file.name)
            found.append(tuple(mine))
        return found

    def _trees(self, file_plan: FilePlan, shapes: Shapes | None = None) -> Iterator[Tree]:
        """The records of a file for their names, as many as count; with `shapes`, of regular ones one of each shape."""
        trees: list[Tree] = []
        left = file_plan.file.most_records
        shapes = shapes if left is None else None
        way = RecordMatcher(self.options, tree.NamedRecords(self.options, trees.append))
        document = Document(file_plan.file.name, way)
        with self._opened(file_plan, SplitOutcome()) as stream:
            unfinished = 0
            for chunk in document.chunks(stream, _CHUNK_BYTES, self.tuning.xml_first_bytes):
                new = (
                    shapes.new(chunk.data, document.record, document.prefixes) if shapes and chunk.has_records else None
                )
                if new is None:
                    self._feed(document, chunk, file_plan)
                    unfinished = unfinished + len(chunk.data) if document.is_in_record and not trees else 0
                    if max(unfinished, document.waiting) > self.record_bytes:
                        raise reading.too_long(file_plan.file, self.record_bytes)
                else:
                    document.passed_over()
                    for data in new:
                        self._feed_alone(data, trees, document.prefixes)
                for record in trees:
                    for one in tree.explode(record, self.arrays):
                        if left is not None and left <= 0:
                            return
                        left = None if left is None else left - 1
                        yield one
                trees.clear()

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a file."""
        found = columns.Columns(wanted, self.options, self.arrays, file_plan.arrays)
        document = Document(file_plan.file.name, RecordMatcher(self.options, found.records))
        unfinished = size = 0
        with self._opened(file_plan, outcome) as stream:
            for chunk in document.chunks(stream, _chunk_bytes(wanted), self.tuning.xml_first_bytes):
                regular = found.regular(chunk.data, document) if chunk.has_records else None
                if regular is None:
                    before = found.count
                    self._feed(document, chunk, file_plan)
                    unfinished = unfinished + len(chunk.data) if document.is_in_record and found.count == before else 0
                    if max(unfinished, document.waiting) > wanted.record_bytes:
                        raise reading.too_long(file_plan.file, wanted.record_bytes)
                size += len(chunk.data)
                is_enough = found.count >= found.most_records or size >= wanted.block_bytes
                if found.count and (is_enough or chunk.is_last or regular is not None):
                    size = 0
                    yield _counted(found.block(outcome.records), outcome)
                    while found.go_on():
                        yield _counted(found.block(outcome.records), outcome)
                if regular is not None:
                    document.passed_over()
                    yield _counted(found.block_of(regular, outcome.records), outcome)

    def _feed(self, document: Document, chunk: DocumentChunk, file_plan: FilePlan) -> None:
        """Go on with a document. If it is broken after records that the parser has skipped, the place is looked for."""
        try:
            document.feed(chunk.data, is_last=chunk.is_last)
        except FormatError:
            if document.has_gaps:
                for _ in self._trees(file_plan):
                    pass
            raise

    def _feed_alone(self, data: bytes, trees: list[Tree], prefixes: Iterable[str]) -> None:
        """Make a tree of one record."""
        around = "".join(f" xmlns:{prefix}='{prefix}'" for prefix in prefixes)
        alone = Document("", _SingleElementMatcher(tree.NamedRecords(self.options, trees.append)))
        alone.feed(f"<_{around}>".encode() + data + b"</_>", is_last=True)

    def document(self, file_plan: FilePlan, wanted: Reading) -> Mapping[str, Any]:
        """The values of a file's sections; the file is read for them alone, as they may stand after its records."""
        found = sections.Sections(wanted, self.options)
        for way in found.ways:
            document = Document(file_plan.file.name, way)
            unfinished = 0
            with self._opened(file_plan, SplitOutcome()) as stream:
                for chunk in document.chunks(stream, _CHUNK_BYTES, self.tuning.xml_first_bytes):
                    document.feed(chunk.data, is_last=chunk.is_last)
                    unfinished = unfinished + len(chunk.data) if document.is_in_record else 0
                    if unfinished > wanted.record_bytes:
                        raise reading.too_long(file_plan.file, wanted.record_bytes)
        try:
            return found.values()
        except UnfitSection as problem:
            raise FormatError(str(problem), file_plan.file.name) from None

    @contextmanager
    def _opened(self, file_plan: FilePlan, outcome: SplitOutcome) -> Iterator[ByteStream]:
        """A file's bytes as UTF-8."""
        whole = splits.Split(0, 0, 0, file_plan.file.size, is_last=True, is_exact=True)
        with changes.opened(file_plan.file) as raw:
            encoding = self.options.encoding
            if encoding is None:
                try:
                    encoding = charset.encoding_of(raw.read(charset.HEAD_BYTES))
                except ValueError as problem:
                    raise FormatError(str(problem), file_plan.file.name) from None
                raw.seek(0)
            yield reading.bytes_of(whole, file_plan, encoding, raw, outcome)


class _SingleElementMatcher(PathMatcher):
    """The way to a record that has nothing but one element around it."""

    def __init__(self, records: Records) -> None:
        super().__init__()
        self._records = records

    def receiver(self) -> Records | None:
        """The receiver of the element in the root."""
        return self._records if len(self.open) == 2 else None


class _Looked:
    """A file with the names that its records have; `is_whole` tells that all of them were looked at."""

    def __init__(self, plan: FilePlan, is_whole: bool, is_nothing: bool) -> None:
        self.plan = plan
        self.is_whole = is_whole
        self.is_nothing = is_nothing
        self.names: dict[str, None] = {}

    def note(self, record: Tree) -> None:
        """Look at a record."""
        self.names.update(dict.fromkeys(tree.present(record)))


def _report_missing(looked: Sequence[_Looked], declared: Sequence[str], tracker: ColumnTracker) -> None:
    """Note which files certainly lack declared columns, and warn of declared columns that no file has."""
    known = [one for one in looked if one.is_whole and one.names]
    for one in known:
        tracker.note_missing(name for name in declared if name not in one.names)
    if known and all(one.is_whole for one in looked):
        others = [name for one in known for name in one.names if name not in declared]
        for name in declared:
            if not any(name in one.names for one in known):
                tracker.note_nowhere(name, misread.missing_member(name, others))


def _chunk_bytes(wanted: Reading) -> int:
    """The bytes to parse at once, so that few records are parsed at once if there are many columns."""
    size = min(max(reading.most_rows(wanted) * _ROW_BYTES, _FEWEST_BYTES), _CHUNK_BYTES)
    return min(size, wanted.block_bytes)


def _counted(block: Block, outcome: SplitOutcome) -> Block:
    outcome.records += block.count
    return block


def open_reader(options: XmlRead, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> XmlReader:
    """The reader of a source's files."""
    return XmlReader(options, arrays, layout)
