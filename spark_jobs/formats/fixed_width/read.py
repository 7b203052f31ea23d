"""The fixed-width files of a source: splits at line ends or at multiples of the record, fields cut out by columns."""

from __future__ import annotations

import codecs
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.formats import encoding, footers, reader, reading, splits
from spark_jobs.formats.fixed_width import layout as layouts
from spark_jobs.formats.fixed_width import parser
from spark_jobs.formats.fixed_width.options import LineSeparator
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.fixed_width.layout import Kinds
    from spark_jobs.formats.fixed_width.options import FixedWidthRead
    from spark_jobs.formats.format import ArrayPath, Block, FileColumns, Reading
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile


@dataclass(frozen=True)
class FixedWidthReader(reader.HeadReader[reader.Head]):
    """Reads fixed-width files."""

    options: FixedWidthRead

    blank_is_nothing: ClassVar[bool] = True

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of records, with their fields."""
        return layouts.kinds_of(self.layout)

    @property
    def _record_bytes(self) -> int | None:
        """The length of each record; None if line ends separate records."""
        if self.options.line_separator is not LineSeparator.NONE:
            return None
        return self.kinds.end

    def head(self, file: InputFile, declared: Sequence[str]) -> reader.Head | None:
        """All files have the columns of the layout; one must not end within a record."""
        start, edges = self._start(file)
        if start is None:
            return None
        if not file.is_compressed:
            self._refuse_incomplete(file, start)
        return reader.Head(file=replace(file, edges=edges), names=self.kinds.names, data_start=start)

    def file_plan(self, head: reader.Head, columns: FileColumns) -> FilePlan:
        """The plan of a file, with the place where its records end."""
        return replace(super().file_plan(head, columns), data_end=self._data_end(head.file, head.data_start))

    def unpacked(self, file_plan: FilePlan, file: InputFile) -> FilePlan:
        """Update the plan for an unpacked file, whose size is known now."""
        self._refuse_incomplete(file, file_plan.data_start)
        made = super().unpacked(file_plan, file)
        return replace(made, data_end=self._data_end(file, made.data_start))

    def _refuse_incomplete(self, file: InputFile, start: int) -> None:
        size = self._record_bytes
        if size is not None and (file.size - start) % size:
            raise _incomplete(file, size, (file.size - start) % size)

    def _start(self, file: InputFile) -> tuple[int | None, int]:
        """The offset of the first record, and a digest of the file's edges.

        Before it are an optional byte order mark of UTF-8 and the lines to skip. None where there is no record.
        """
        with changes.opened(file) as stream:
            edges = stream.edges()
            head = stream.read(len(codecs.BOM_UTF8) + 1)
            is_marked = head.startswith(codecs.BOM_UTF8) and encoding.is_utf8(self.options.encoding)
            start = len(codecs.BOM_UTF8) if is_marked else 0
            if not self.options.skip_rows:
                return start if len(head) > start else None, edges
            stream.seek(start)
            start += footers.after_lines(stream, self.options.skip_rows)
            stream.seek(start)
            return start if stream.read(1) else None, edges

    def _data_end(self, file: InputFile, start: int) -> int | None:
        """The end of the records if lines follow them that are known without reading the file; otherwise None."""
        if not self.options.skip_footer or file.is_compressed:
            return None
        return footers.start_of(file, start, self.options.skip_footer, has_returns=False)

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a split; its records begin in it."""
        parsed = parser.FixedWidthParser(self.kinds, self.options, file_plan.columns, wanted)
        with changes.opened(file_plan.file) as stream:
            widths = parsed.widths
            # Fields may overlap, so that a record may unfold to far more than its bytes.
            size = max(wanted.block_bytes * self.kinds.end // max(sum(widths), self.kinds.end), 1)
            for records in self._records(split, file_plan, stream, outcome, size, wanted.record_bytes):
                if max(self.kinds.end, sum(widths)) > wanted.record_bytes < parsed.unfolded(records):
                    raise reading.too_long(file_plan.file, wanted.record_bytes)
                block = parsed.block(outcome.records, records)
                outcome.records += len(records)
                yield block

    def counts(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
        """Records are counted by their ends."""
        with changes.opened(file_plan.file) as stream:
            found = self._records(split, file_plan, stream, outcome, reading.BLOCK_BYTES, self.record_bytes)
            outcome.records = sum(map(len, found))
        return True

    def _records(
        self,
        split: Split,
        file_plan: FilePlan,
        stream: Stream,
        outcome: SplitOutcome,
        size: int,
        most: int,
    ) -> Iterator[parser.Records]:
        """The records of a split; of a line that is longer than `most`, one byte more is kept."""
        longest = self.kinds.end if self._record_bytes is not None else min(self.kinds.end, most + 1)
        if file_plan.file.is_compressed:
            outcome.start, outcome.end = split.start, split.end
            stream.seek(file_plan.data_start)
            plain: ByteStream = stream
            if self.options.skip_footer:
                plain = footers.WithoutFooter(stream, self.options.skip_footer, has_returns=False)
            return self._unpacked(file_plan.file, plain, longest, size)
        if self._record_bytes is not None:
            first = file_plan.data_start
            outcome.start, outcome.end = (first - (first - at) // longest * longest for at in (split.start, split.end))
            stream.seek(outcome.start)
            return parser.by_size(stream, outcome.end - outcome.start, longest, size)
        outcome.start, outcome.end = splits.actual_range(split, stream, parser.next_line)
        stream.seek(outcome.start)
        is_crlf = self.options.line_separator is LineSeparator.CR_LF
        return parser.by_line(stream, outcome.end - outcome.start, longest, size, is_crlf=is_crlf)

    def _unpacked(self, file: InputFile, stream: ByteStream, longest: int, size: int) -> Iterator[parser.Records]:
        """The records from a stream's position to its end, wherever that is."""
        if self._record_bytes is None:
            is_crlf = self.options.line_separator is LineSeparator.CR_LF
            yield from parser.by_line(stream, sys.maxsize, longest, size, is_crlf=is_crlf)
            return
        for records in parser.by_size(stream, sys.maxsize, longest, size):
            if rest := len(records.data) % longest:
                raise _incomplete(file, longest, rest)
            yield records


def _incomplete(file: InputFile, size: int, rest: int) -> FormatError:
    return FormatError(f"incomplete record: expected {size} bytes, got {rest}", file.name)


def open_reader(options: FixedWidthRead, arrays: tuple[ArrayPath, ...], layout: Any) -> FixedWidthReader:
    """The reader of a source's files."""
    return FixedWidthReader(options, arrays, layout)
