"""The JSON files of a source: layouts and undeclared leaves found, splits read and counted.

Each JSON record names its own members, so undeclared columns are known only after all records have been seen. To carry
or reject undeclared columns, a first pass collects the names alone, split by split. Tasks may do this in any order,
because names are ordered by split and then by position. `drop` needs no such pass. Of a large file, only the first
records are inspected, and the readers report further names.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.cxl import types
from spark_jobs.formats import names, reader, reading, splits
from spark_jobs.formats.byte_stream import RangeStats, TooLong
from spark_jobs.formats.coerce import UnfitSection
from spark_jobs.formats.columns import too_many
from spark_jobs.formats.format import ArrayPath, Reading, SourceColumn
from spark_jobs.formats.json import heads, parser, sections, undeclared
from spark_jobs.formats.json.exact import one_by_one
from spark_jobs.formats.json.options import JsonLayout
from spark_jobs.formats.json.texts import array, documents, portions
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.columns import ColumnTracker, FilePlan
    from spark_jobs.formats.format import Block
    from spark_jobs.formats.json.options import JsonRead
    from spark_jobs.formats.names import Part, Search
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile


@dataclass(frozen=True)
class JsonReader(reader.Reader):
    """Reads JSON files."""

    options: JsonRead

    undeclared_type: ClassVar[types.Type] = one_by_one.UNDECLARED_TYPE

    def look(
        self, inputs: Iterable[InputFile], declared: Sequence[str], tracker: ColumnTracker
    ) -> tuple[list[FilePlan], list[str]]:
        """Find out the layouts of the files, and whether they have the declared columns."""
        source = heads.Heads(tuple(declared), self.options, self.arrays, self.tuning, self.record_bytes)
        looked: list[heads.FileHead] = []
        skipped: list[str] = []
        for file in inputs:
            found = source.look(file)
            if found is None:
                skipped.append(file.name)
            else:
                looked.append(found)
        heads.clear_doubts(looked, source)
        heads.report_missing(looked, source, tracker)
        return [found.plan for found in looked], skipped

    def note_undeclared(
        self, tracker: ColumnTracker, plans: list[FilePlan], declared: Sequence[str], search: Search
    ) -> list[FilePlan]:
        """Look for the undeclared names of all records, or of a sample of them."""
        return list(names.note_undeclared(tracker, self, plans, declared, search))

    @property
    def notices_names(self) -> bool:
        """Where each object is a record."""
        return not self.arrays and self.options.record_path is None

    def groups(self, parts: Sequence[Part]) -> list[list[Part]]:
        """Small neighbours together, others alone."""
        groups: list[list[Part]] = []
        left = -1
        for part in parts:
            size = part.split.end - part.split.start
            is_small = self._is_of_few_lines(part)
            if not is_small or size > left:
                groups.append([])
                left = self.tuning.json_portion_bytes if is_small else -1
            groups[-1].append(part)
            left -= size
        return groups

    def _is_of_few_lines(self, part: Part) -> bool:
        return (
            part.split.index == 0
            and part.split.is_last
            and part.split.end - part.split.start <= heads.HEAD_BYTES
            and part.file_plan.is_splittable
            and not part.file_plan.file.is_compressed
            and part.file_plan.file.most_records is None
            and part.most_records is None
            and not self.arrays
        )

    def names(self, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        """The undeclared leaves of the parts' records in first-seen order."""
        try:
            return self._names(parts)
        except undeclared.TooMany:
            raise too_many(parts[0].file_plan.file.name) from None
        except TooLong as problem:
            # Of files that are searched together none has a record as long as that.
            raise reading.refused(parts[0].file_plan.file, self.record_bytes, problem) from None

    def _names(self, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        if not self._is_of_few_lines(parts[0]):
            return [self._names_of_one(parts[0])]
        files = [changes.content(part.file_plan.file)[part.file_plan.data_start :] for part in parts]
        return undeclared.Names(parts[0].declared, tuning=self.tuning).add_files(files)

    def _names_of_one(self, part: Part) -> tuple[str, ...]:
        wanted = Reading(tuple(SourceColumn(name, types.ANY) for name in part.declared), record_bytes=self.record_bytes)
        file = part.file_plan.file
        parsed = self._parser(replace(part.file_plan, known=None), wanted)
        with changes.opened(file) as raw:
            begin = self._beginning(part.split, part.file_plan, raw, SplitOutcome())
            return tuple(parsed.keys(begin, part.most_records or file.most_records))

    def _beginning(self, split: Split, file_plan: FilePlan, raw: Stream, outcome: SplitOutcome) -> parser.Begin:
        """Make a function that opens the bytes of a split at their beginning, each time that it is called."""

        def begin() -> ByteStream:
            raw.seek(0)
            return reading.bytes_of(split, file_plan, self.options.encoding, raw, outcome)

        return begin

    def _parser(self, file_plan: FilePlan, wanted: Reading) -> parser.JsonParser:
        layout = heads.planned_layout(file_plan)
        name, start = file_plan.file.name, file_plan.data_start
        return parser.JsonParser(name, layout, self.options, wanted, self.arrays, file_plan.known, start, self.tuning)

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a split. Splits of lines are always consistent."""
        parsed = self._parser(file_plan, wanted)
        stats = RangeStats()
        with changes.opened(file_plan.file) as stream:
            begin = self._beginning(split, file_plan, stream, outcome)
            try:
                for block in parsed.blocks(begin, stats):
                    outcome.records = stats.records
                    outcome.has_news = parsed.has_news
                    if outcome.has_news:
                        return
                    yield block
            except TooLong as problem:
                raise reading.refused(file_plan.file, wanted.record_bytes, problem) from None
        outcome.records = stats.records

    def document(self, file_plan: FilePlan, wanted: Reading) -> Mapping[str, Any]:
        """Read the values of sections from a file, which has to be one JSON value.

        The file is read once more for them alone: a trailer follows the records that refer to it.
        """
        file, start = file_plan.file, file_plan.data_start
        path = file.name
        whole = splits.Split(0, 0, start, file.size, is_last=True, is_exact=True)
        with changes.opened(file) as stream:
            begin = self._beginning(whole, file_plan, stream, SplitOutcome())
            try:
                return sections.of_document(self._document(begin, file, wanted), wanted)
            except TooLong as problem:
                raise reading.too_long(file, wanted.record_bytes, "what a section leads to is") from problem
            except ValueError as problem:
                words = parser.words_of(problem, start, self.options.encoding)
                raise FormatError(f"broken JSON: sections are of files with one value: {words}", path) from problem
            except UnfitSection as problem:
                raise FormatError(str(problem), path) from None

    def _document(self, begin: parser.Begin, file: InputFile, wanted: Reading) -> Any:
        """Read the parts of a document that sections need; a short or broken document is read whole.

        Raises:
            ValueError: it is broken.
            TooLong: a value that is needed is longer than memory allows.
        """
        size, most = self.tuning.json_portion_bytes, wanted.record_bytes
        if file.size > size or file.is_compressed:
            try:
                text = documents.DocumentText(begin(), RangeStats(), (), size, most)
                return text.parts(sections.parts_of(wanted.sections))
            except ValueError as problem:
                try:
                    return array.ArrayText(begin(), RangeStats(), size, most).rest()
                except TooLong:
                    raise problem from None
        return array.ArrayText(begin(), RangeStats(), size, most).rest()

    def counts(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
        """Records on lines are the lines that are not blank."""
        if file_plan.layout is not JsonLayout.NDJSON or self.arrays:
            return False
        with changes.opened(file_plan.file) as stream:
            part = reading.bytes_of(split, file_plan, self.options.encoding, stream, outcome)
            lines = portions.portions(part, RangeStats(), self.tuning.json_portion_bytes, self.record_bytes)
            try:
                outcome.records = sum(some.count for some in lines)
            except TooLong as problem:
                raise reading.refused(file_plan.file, self.record_bytes, problem) from None
        return True

    def is_small(self, split: Split, file_plan: FilePlan) -> bool:
        """A file of lines as short as a block, unless arrays make several records of one, or names are noticed."""
        return (
            file_plan.layout is JsonLayout.NDJSON
            and not self.arrays
            and file_plan.known is None
            and reading.is_small_file(split, file_plan, self.options.encoding)
        )

    def read_together(self, file_plans: Sequence[FilePlan], wanted: Reading) -> tuple[list[Block], list[int]] | None:
        """The records of the files as one text."""
        files = [changes.content(file_plan.file)[file_plan.data_start :] for file_plan in file_plans]
        # No error of the file: each line that is no record fails on its own.
        parsed = self._parser(file_plans[0], wanted)
        blocks = [*parsed.blocks(lambda: io.BytesIO(portions.joined(files)), RangeStats())]
        counts = [portions.count(data) for data in files]
        return (blocks, counts) if sum(block.count for block in blocks) == sum(counts) else None


def open_reader(options: JsonRead, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> JsonReader:
    """The reader of a source's files."""
    return JsonReader(options, arrays, layout)
