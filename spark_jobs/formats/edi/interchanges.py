"""Reads files of interchanges, whatever their envelope: a record for each segment of a message (spec/formats.md 7).

A file has one interchange or several, each with its own delimiters. It is read as a whole by one task, for only reading
it tells which message a segment belongs to.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow.compute as pc

from spark_jobs.cxl import failures
from spark_jobs.formats import encoding, names, reader, reading, stretch
from spark_jobs.formats.columns import ColumnTracker, FilePlan, OnUnmapped
from spark_jobs.formats.edi.documents import Documents
from spark_jobs.formats.edi.envelope import HEAD_BYTES, Broken
from spark_jobs.formats.edi.portions import BrokenFile, InterchangeFile, Window
from spark_jobs.formats.records import RecordShape
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.columns import ScanPlan
    from spark_jobs.formats.edi.envelope import Envelope
    from spark_jobs.formats.format import Block, Reading
    from spark_jobs.formats.names import Search
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.formats.stretch import ByteStream
    from spark_jobs.scan.files import InputFile


@dataclass(frozen=True)
class InterchangeReader(reader.Reader):
    """Reads files of interchanges; a format says how its envelope is, and what its columns are called."""

    title: ClassVar[str]
    reference: ClassVar[tuple[str, str]]
    blank_is_nothing: ClassVar[bool] = True

    @abstractmethod
    def envelope(self) -> Envelope:
        """What follows the envelope of a file."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of every file: tag, reference, type, and the elements."""
        elements = range(1, self.options.max_elements + 1)
        return ("seg_id", *self.reference, *(f"e{number:02}" for number in elements))

    def plan(
        self,
        declared: Sequence[str],
        inputs: Iterable[InputFile],
        on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
        search: Search = names.search_here,
    ) -> ScanPlan:
        """The columns are the same in every file; each has to begin with an interchange.

        Raises:
            FormatError: a file cannot be read or begins in another way, or an undeclared column is rejected.
        """
        tracker = ColumnTracker(declared, on_unmapped)
        found: list[tuple[InputFile, int]] = []
        skipped: list[str] = []
        for file in inputs:
            if not file.size:
                skipped.append(file.name)
                continue
            edges, start = self._start(file)
            tracker.see(file.name, self.fields)
            found.append((replace(file, edges=edges), start))
        shared = tracker.columns(self.fields)
        plans = tuple(FilePlan(file, shared, start, is_splittable=False) for file, start in found)
        return tracker.plan(plans, skipped)

    def _start(self, file: InputFile) -> tuple[int, int]:
        """The digest of a file's ends, and where its first segment begins in it."""
        charset = self.options.encoding
        with changes.opened(file) as raw:
            edges = raw.edges()
            is_utf8 = encoding.is_utf8(charset)
            stream: ByteStream = raw if is_utf8 else encoding.Utf8Stream(raw, charset)
            head = Window(stream, 0).look(HEAD_BYTES)
        start = stretch.records_start(head, is_marked=is_utf8 or not encoding.takes_mark(charset))
        try:
            if head[start:]:
                self.envelope().signs(head[start:])
        except Broken as problem:
            raise self._error(BrokenFile(str(problem), 1, "", start), file) from None
        return edges, start

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a file; its counts and references are checked on the way."""
        shape = RecordShape(wanted, file_plan.columns, has_nulls=True)
        with changes.opened(file_plan.file) as stream:
            part = reading.bytes_of(split, file_plan, self.options.encoding, stream, outcome)
            most, envelope = self.options.max_elements, self.envelope()
            text = InterchangeFile(part, file_plan.data_start, envelope, most, wanted.block_bytes)
            documents = Documents(wanted, envelope)
            try:
                for portion in text.portions():
                    for header in portion.headers:
                        documents.check(header)
                    count = len(portion.which)
                    if not count:
                        continue
                    texts = {field: portion.column(field) for field in shape.needed}
                    first = outcome.records
                    outcome.records += count
                    block = shape.block(first, count, texts, None, failures.none())
                    found = documents.around(portion)
                    if block.rows is not None:
                        good = pc.subtract(block.rows, first)
                        found = {path: column.take(good) for path, column in found.items()}
                    block.documents = found
                    yield block
            except BrokenFile as problem:
                raise self._error(problem, file_plan.file) from None

    def _error(self, problem: BrokenFile, file: InputFile) -> FormatError:
        unit = "byte" if encoding.is_utf8(self.options.encoding) else "byte of its text as UTF-8"
        tag = f" ({problem.tag})" if problem.tag else ""
        place = f"segment {problem.number}{tag} at {unit} {problem.offset}"
        return FormatError(f"broken {self.title}: {place}: {problem.message}", file.name)
