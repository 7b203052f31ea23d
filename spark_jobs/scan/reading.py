"""Reads a split of a source's file: what a task does with its part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.formats import encoding
from spark_jobs.formats.csv import parser as csv_parser
from spark_jobs.formats.format import FormatError
from spark_jobs.formats.json import parser as json_parser
from spark_jobs.formats.json import portions
from spark_jobs.formats.stretch import Stretch
from spark_jobs.scan import changes, splits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.csv import quotes
    from spark_jobs.formats.format import Block, Reading
    from spark_jobs.formats.json.members import ArrayPath
    from spark_jobs.formats.options import CsvOptions, JsonLayout, JsonOptions
    from spark_jobs.formats.stretch import ByteStream
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.columns import FilePlan
    from spark_jobs.scan.splits import Split


@dataclass
class SplitOutcome:
    """What reading a split told, complete once all blocks were taken.

    Args:
        start: where reading began, in bytes.
        end: where it ended.
        records: how many records there were, good and bad.
        is_consistent: whether the split ended outside quotes, and not before its start. When one split of a file is
            not consistent, what its splits gave must be thrown away and read again with `splits.exact_splits`.
    """

    start: int = 0
    end: int = 0
    records: int = 0
    is_consistent: bool = True


class _Range:
    """The bytes of a file from its position on, up to a number of them."""

    def __init__(self, stream: Stream, length: int) -> None:
        self._stream = stream
        self._left = length

    def read(self, size: int, /) -> bytes:
        data: bytes = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data


def read_csv(
    split: Split,
    file_plan: FilePlan,
    options: CsvOptions,
    reading: Reading,
    outcome: SplitOutcome,
    block_bytes: int | None = None,
) -> Iterator[Block]:
    """The blocks of a split of a CSV file; `outcome` is filled in on the way.

    Raises:
        FormatError: the file cannot be opened, changed (E907), or has a record that is too long for a task (E310).
    """
    reader = csv_parser.CsvParser(options, file_plan.columns, reading, block_bytes)
    stretch = Stretch()
    with changes.opened(file_plan.file) as stream:
        part = bytes_of(split, file_plan, options.encoding, stream, outcome, csv_parser.dialect_of(options))
        for block in reader.blocks(part, stretch, is_last=_is_last(split, file_plan, outcome)):
            # Noted before each block: whoever takes it may stop there, at a record that is broken by a wrong cut.
            outcome.records = stretch.records
            outcome.is_consistent &= stretch.is_closed
            yield block
    outcome.records = stretch.records
    outcome.is_consistent &= stretch.is_closed
    if stretch.is_too_long and outcome.is_consistent:
        raise too_long(file_plan, reading)


def too_long(file_plan: FilePlan, reading: Reading) -> FormatError:
    """A record that cannot be held (decision 41)."""
    text = (
        f"a record is longer than {reading.record_bytes} bytes, a third of what memory.limit leaves to each task; "
        "raise memory.limit, or use fewer threads"
    )
    return FormatError(text, file_plan.file.name, "E310")


def count_csv(split: Split, file_plan: FilePlan, options: CsvOptions, outcome: SplitOutcome) -> None:
    """Count the records of a split of a CSV file without parsing them; only `outcome` is filled in.

    Raises:
        FormatError: the file cannot be opened, or changed (E907).
    """
    stretch = Stretch()
    with changes.opened(file_plan.file) as stream:
        part = bytes_of(split, file_plan, options.encoding, stream, outcome, csv_parser.dialect_of(options))
        csv_parser.count(part, options, stretch, is_last=_is_last(split, file_plan, outcome))
    outcome.records = stretch.records
    outcome.is_consistent &= stretch.is_closed


def read_json(
    split: Split,
    file_plan: FilePlan,
    options: JsonOptions,
    reading: Reading,
    outcome: SplitOutcome,
    arrays: Sequence[ArrayPath] = (),
) -> Iterator[Block]:
    """The blocks of a split of a JSON file; `outcome` is filled in on the way. Splits of lines are always consistent.

    Raises:
        FormatError: the file cannot be opened, changed (E907), or its array is broken.
    """
    reader = json_parser.JsonParser(file_plan.file.name, layout_of(file_plan), options, reading, arrays)
    stretch = Stretch()
    with changes.opened(file_plan.file) as stream:
        for block in reader.blocks(bytes_of(split, file_plan, options.encoding, stream, outcome), stretch):
            outcome.records = stretch.records
            yield block
    outcome.records = stretch.records


def count_lines(split: Split, file_plan: FilePlan, options: JsonOptions, outcome: SplitOutcome) -> None:
    """Count the records of a split of lines, which are those that are not blank; only `outcome` is filled in.

    Raises:
        FormatError: the file cannot be opened, or changed (E907).
    """
    with changes.opened(file_plan.file) as stream:
        part = bytes_of(split, file_plan, options.encoding, stream, outcome)
        outcome.records = sum(lines.count for lines in portions.portions(part, Stretch()))


def layout_of(file_plan: FilePlan) -> JsonLayout:
    """How records stand in a JSON file."""
    assert file_plan.layout is not None
    return file_plan.layout


def bytes_of(
    split: Split,
    file_plan: FilePlan,
    charset: str,
    stream: Stream,
    outcome: SplitOutcome,
    dialect: quotes.Dialect | None = None,
) -> ByteStream:
    """The bytes of a split as UTF-8; notes their place in `outcome`."""
    if not encoding.is_utf8(charset):
        outcome.start, outcome.end = split.start, split.end
        return encoding.Utf8Stream(stream, charset, file_plan.data_start)
    outcome.start, outcome.end = splits.actual_range(split, stream, dialect)
    outcome.is_consistent = outcome.start <= outcome.end
    stream.seek(outcome.start)
    return _Range(stream, max(outcome.end - outcome.start, 0))


def _is_last(split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
    return split.is_last or outcome.end >= file_plan.file.size
