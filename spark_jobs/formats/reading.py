"""Reading a split of a file, for all formats: its bytes, and the outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.formats import byte_stream, encoding, format, splits
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.format import Reading
    from spark_jobs.formats.splits import Split, StartIn
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile


BLOCK_BYTES = format.BLOCK_BYTES


@dataclass
class SplitOutcome:
    """The outcome of reading a split, complete once all blocks were taken.

    Args:
        start: where reading began, in bytes.
        end: where it ended.
        records: how many records there were, good and bad.
        is_consistent: whether the split ended outside quotes, and not before its start. When one split of a file is
            not consistent, the results of its splits must be discarded and read again with `Reader.exact_splits`.
        has_news: whether there are undeclared names that the plan of the file does not know (`FilePlan.known`); reading
            may have ended there.
        warnings: messages for the user about a file that is read all the same, its name included.
    """

    start: int = 0
    end: int = 0
    records: int = 0
    is_consistent: bool = True
    has_news: bool = False
    warnings: list[str] = field(default_factory=list)


class _Range:
    """The bytes of a file from its position on, up to a number of them."""

    def __init__(self, stream: Stream, length: int) -> None:
        self._stream = stream
        self._left = length

    def read(self, size: int, /) -> bytes:
        data: bytes = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data


def bytes_of(
    split: Split,
    file_plan: FilePlan,
    charset: str,
    stream: Stream,
    outcome: SplitOutcome,
    start_in: StartIn = byte_stream.next_line_start,
    *,
    guesses: bool = False,
) -> ByteStream:
    """The bytes of a split as UTF-8; notes their place in `outcome`. The last two are for `splits.actual_range`."""
    if file_plan.file.is_compressed or not encoding.is_utf8(charset):
        outcome.start, outcome.end = split.start, split.end
    if file_plan.file.is_compressed and encoding.is_utf8(charset):
        stream.seek(file_plan.data_start)
        return stream
    if not encoding.is_utf8(charset):
        return encoding.Utf8Stream(stream, charset, file_plan.data_start)
    start, end = splits.actual_range(split, stream, start_in, guesses=guesses)
    # After the last record there may be something else.
    outcome.start, outcome.end = min(start, file_plan.end), min(end, file_plan.end)
    outcome.is_consistent = outcome.start <= outcome.end
    stream.seek(outcome.start)
    stream.expect(outcome.end)
    return _Range(stream, max(outcome.end - outcome.start, 0))


def is_last(split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
    """Whether a file ends with a split."""
    return split.is_last or outcome.end >= file_plan.end


def is_small_file(split: Split, file_plan: FilePlan, charset: str) -> bool:
    """Whether a split is a whole file that is as short as a block, and UTF-8."""
    return (
        split.index == 0
        and split.is_last
        and split.end - split.start <= format.BLOCK_BYTES
        and file_plan.file.most_records is None
        and not file_plan.file.is_compressed
        and encoding.is_utf8(charset)
    )


def most_rows(wanted: Reading) -> int:
    """The maximal number of records in a block, since columns also have places for missing values."""
    carried = len(wanted.columns if wanted.live is None else wanted.live) + len(wanted.undeclared)
    return max(wanted.block_bytes // (2 * max(carried, 1)), 1)


def too_long(file: InputFile, most: int, what: str = "a record is") -> FormatError:
    """The error for a record or a header that is too long for a task's share of the memory.

    Args:
        file: the file that has it.
        most: how many bytes it may have.
        what: the subject of the message with its verb, such as "a record is".
    """
    text = (
        f"{what} longer than {most} bytes, a third of what memory.limit leaves to each task; "
        "raise memory.limit, or use fewer threads"
    )
    return FormatError(text, file.name, "E310")


def refused(file: InputFile, most: int, problem: byte_stream.TooLong) -> FormatError:
    """The error for a record that a reader found too long."""
    is_heavy = isinstance(problem, byte_stream.TooHeavy)
    return too_long(file, most, "a record, with the values in it, is" if is_heavy else "a record is")
