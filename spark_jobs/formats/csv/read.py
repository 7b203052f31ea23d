"""The CSV files of a source: heads matched with the declared columns, splits read and counted."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.formats import encoding, footers, misread, reader, reading
from spark_jobs.formats.byte_stream import RangeStats
from spark_jobs.formats.columns import ColumnTracker
from spark_jobs.formats.csv import borders, head, parser, rewriting, together
from spark_jobs.formats.csv.head import Head
from spark_jobs.formats.csv.misread import foreign
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.csv.options import CsvRead
    from spark_jobs.formats.format import ArrayPath, Block, FileColumns, Reading
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile

#: The number of files that a thread opens in one go.
_FILES_AT_A_TIME = 32
#: The number of lines that are searched for a header if the first line is none.
_LOOKED_AT_LINES = 20


@dataclass(frozen=True)
class CsvReader(reader.HeadReader[Head]):
    """Reads CSV files."""

    options: CsvRead

    blank_is_nothing: ClassVar[bool] = True

    def head(self, file: InputFile, declared: Sequence[str]) -> Head | None:
        """The head of a file; see `head.read`."""
        return head.read(file, self.options, declared, self.record_bytes)

    def heads(self, inputs: Iterable[InputFile], declared: Sequence[str]) -> Iterator[tuple[InputFile, Head | None]]:
        """The files with their heads, each of which has to name a declared column if it names any (E222)."""
        known = ColumnTracker(declared)
        for file, found in self._read_heads(list(inputs), declared):
            if found is not None and self.options.has_header and declared and not known.has_any(found.names):
                text = foreign(found, declared, self.options, self._lines_before_header(file, declared))
                raise FormatError(text, file.name, misread.FOREIGN)
            yield file, found

    def _read_heads(
        self, inputs: Sequence[InputFile], declared: Sequence[str]
    ) -> Iterator[tuple[InputFile, Head | None]]:
        """The heads of files; many are opened some at a time, for opening is mostly waiting."""
        if len(inputs) <= _FILES_AT_A_TIME:
            yield from super().heads(inputs, declared)
            return
        some = [inputs[start : start + _FILES_AT_A_TIME] for start in range(0, len(inputs), _FILES_AT_A_TIME)]
        with ThreadPoolExecutor(max_workers=8) as pool:
            found = pool.map(lambda some: [self.head(file, declared) for file in some], some)
            yield from zip(inputs, itertools.chain.from_iterable(found), strict=True)

    def file_plan(self, head: Head, columns: FileColumns) -> FilePlan:
        """The plan of a file, with the place where its records end."""
        return replace(
            super().file_plan(head, columns),
            data_end=self._data_end(head.file, head.data_start),
            headers=head.records if self.options.skip_repeated_header else (),
        )

    def _lines_before_header(self, file: InputFile, declared: Sequence[str]) -> int | None:
        """After how many lines a header stands that has declared columns, where something else comes first."""
        for skipped in range(self.options.skip_rows + 1, self.options.skip_rows + _LOOKED_AT_LINES):
            try:
                found = head.read(file, replace(self.options, skip_rows=skipped), declared, self.record_bytes)
            except FormatError:
                continue
            if found is None:
                return None
            if set(declared) & set(found.names):
                return skipped
        return None

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a split; whether it was cut rightly is noted before each."""
        parsed = parser.CsvParser(self.options, file_plan.columns, wanted, headers=file_plan.headers)
        stats = RangeStats()
        with changes.opened(file_plan.file) as stream:
            part = self._bytes(split, file_plan, stream, outcome)
            for block in parsed.blocks(part, stats, is_last=reading.is_last(split, file_plan, outcome)):
                # Noted before each block: the consumer may stop at any block, for a record that a wrong cut has broken.
                outcome.records = stats.records
                outcome.is_consistent &= stats.is_closed
                yield block
        outcome.records = stats.records
        outcome.is_consistent &= stats.is_closed
        if stats.is_too_long and outcome.is_consistent:
            raise reading.too_long(file_plan.file, wanted.record_bytes)

    def counts(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
        """Records are counted by their ends."""
        stats = RangeStats()
        with changes.opened(file_plan.file) as stream:
            part = self._bytes(split, file_plan, stream, outcome)
            is_last = reading.is_last(split, file_plan, outcome)
            parser.count(part, self.options, stats, file_plan.headers, is_last=is_last, most=self.record_bytes)
        outcome.records = stats.records
        outcome.is_consistent &= stats.is_closed
        if stats.is_too_long and outcome.is_consistent:
            raise reading.too_long(file_plan.file, self.record_bytes)
        return True

    def _bytes(self, split: Split, file_plan: FilePlan, stream: Stream, outcome: SplitOutcome) -> ByteStream:
        start_in = parser.start_in(self.options)
        found = reading.bytes_of(split, file_plan, self.options.encoding, stream, outcome, start_in, guesses=True)
        made = rewriting.of(self.options)
        if made is not None:
            found = made.stream(found, file_plan.columns.width)
        return footers.WithoutFooter(found, self.options.skip_footer) if self._holds_back(file_plan) else found

    def _holds_back(self, file_plan: FilePlan) -> bool:
        """Whether the last lines of a file are left out while it is read: where they begin is known of other files."""
        return bool(self.options.skip_footer) and file_plan.data_end is None

    def exact_splits(self, file_plan: FilePlan, cut: Sequence[Split]) -> list[Split]:
        """Found by one pass over the file's bytes in bounded memory."""
        return borders.exact_splits(file_plan, cut, self.options)

    def is_small(self, split: Split, file_plan: FilePlan) -> bool:
        """A file that is as short as a block."""
        is_regular = parser.is_regular(self.options) and not self._holds_back(file_plan)
        return is_regular and reading.is_small_file(split, file_plan, self.options.encoding)

    def unpacked(self, file_plan: FilePlan, file: InputFile) -> FilePlan:
        """The plan of a compressed file whose bytes are now in a plain one."""
        made = super().unpacked(file_plan, file)
        return replace(made, data_end=self._data_end(file, made.data_start))

    def _data_end(self, file: InputFile, start: int) -> int | None:
        """The end of the records if lines follow them and reading the whole file is not necessary; otherwise None."""
        if not self.options.skip_footer or file.is_compressed or not encoding.is_utf8(self.options.encoding):
            return None
        return footers.start_of(file, start, self.options.skip_footer, rewriting.of(self.options))

    def read_together(self, file_plans: Sequence[FilePlan], wanted: Reading) -> tuple[list[Block], list[int]] | None:
        """The records of the files as one text; a file with an open quote cannot be read so."""
        return together.read(file_plans, self.options, wanted)


def open_reader(options: CsvRead, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> CsvReader:
    """The reader of a source's files."""
    return CsvReader(options, arrays, layout)
