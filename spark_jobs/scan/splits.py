"""Cuts files into splits that are read on their own, exactly at record borders.

A split has nominal ends, which depend on file sizes alone. Its records are those that begin in it: it is read from the
first record start at or after its nominal start to the one at or after its nominal end. Both neighbours find that
border by the same rule from the same bytes, so nothing is read twice or left out. The rule guesses, from the quotes
that follow, whether a line end stands outside quotes. Reading a split proves the guess of its successor: if a split
that began right ends outside quotes, and not before its start, the next one begins right; and the first begins at the
file's start. When a split of a file fails in that, all its splits are read again with the borders of `exact_borders`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.formats.csv import parser, quotes
from spark_jobs.scan import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.formats.options import CsvOptions
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.columns import FilePlan

#: Bytes of a split where nothing else is asked for: some seconds of work for one core, and small enough for many cores.
SPLIT_BYTES = 64 << 20

_PROBE_BYTES = 64 << 10
_MOST_PROBED_BYTES = 4 << 20
_SCAN_BYTES = 4 << 20


@dataclass(frozen=True)
class Split:
    """A part of a file.

    Args:
        file: the file's index in the scan plan.
        index: the split's place in its file, from 0.
        start: the nominal start in bytes; of the first split, where the records begin.
        end: the nominal end, excluded.
        is_last: whether the file ends with this split.
        is_exact: whether `start` and `end` are record borders already.
    """

    file: int
    index: int
    start: int
    end: int
    is_last: bool
    is_exact: bool = False


def plan(file_plans: Sequence[FilePlan], split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """The splits of a source's files, by file and place. Sizes alone decide, so results are the same on any cluster."""
    splits: list[Split] = []
    for number, file_plan in enumerate(file_plans):
        start, end = file_plan.data_start, file_plan.file.size
        if not file_plan.is_splittable or file_plan.file.most_records is not None or end <= start:
            splits.append(Split(number, 0, start, max(start, end), is_last=True, is_exact=True))
            continue
        borders = [*range(start, end, max(1, split_bytes)), end]
        if len(borders) > 2 and borders[-1] - borders[-2] < split_bytes // 8:
            # A small rest goes with its neighbour: a task of its own would cost more than it reads.
            del borders[-2]
        splits += [
            Split(number, index, borders[index], borders[index + 1], is_last=index == len(borders) - 2)
            for index in range(len(borders) - 1)
        ]
    return splits


def actual_range(split: Split, stream: Stream, dialect: quotes.Dialect | None) -> tuple[int, int]:
    """The bytes that a split reads: its nominal range moved to where records seem to start.

    An end before the start says that one of the two guesses is wrong.

    Args:
        split: the split.
        stream: its file.
        dialect: how quotes are written; None where no record has a line end inside.
    """
    if split.is_exact:
        return split.start, split.end
    start = split.start if split.index == 0 else _likely_start(stream, split.start, dialect)
    end = split.end if split.is_last else _likely_start(stream, split.end, dialect)
    return start, end


def _likely_start(stream: Stream, position: int, dialect: quotes.Dialect | None) -> int:
    """Where the first record at or after a position seems to start; the file's end where none does.

    The quotes of the next bytes tell whether the position is more likely inside or outside of a quoted cell.
    """
    at = position - 1
    stream.seek(at)
    data = b""
    while chunk := stream.read(max(_PROBE_BYTES, len(data))):
        data += chunk
        is_inside = dialect is not None and dialect.seems_inside(data)
        toggles = dialect.toggles(data, is_inside) if dialect is not None else quotes.NO_TOGGLES
        found = quotes.next_record_start(data, 0, toggles, is_inside)
        if found is not None:
            return at + found
        if len(data) >= _MOST_PROBED_BYTES:
            # Nothing is outside: rather guess wrong, which is found out, than search the whole file.
            return at + (quotes.next_line_start(data, 0) or len(data))
    return stream.size()


def exact_splits(file_plan: FilePlan, splits: Sequence[Split], options: CsvOptions) -> list[Split]:
    """The splits of one file with true record borders, found by one pass over its bytes in bounded memory."""
    borders = exact_borders(file_plan, [split.start for split in splits[1:]], options)
    starts = [splits[0].start, *borders]
    ends = [*borders, splits[-1].end]
    return [
        replace(split, start=start, end=end, is_exact=True)
        for split, start, end in zip(splits, starts, ends, strict=True)
    ]


def exact_borders(file_plan: FilePlan, positions: Sequence[int], options: CsvOptions) -> list[int]:
    """For each position (ascending) the first record start at or after it; the file's end where there is none."""
    dialect = parser.dialect_of(options)
    borders: list[int] = []
    is_inside, before = False, quotes.FILE_START
    at = file_plan.data_start
    with changes.opened(file_plan.file) as stream:
        stream.seek(at)
        while len(borders) < len(positions) and (data := _read_whole_quotes(stream, dialect)):
            toggles = dialect.toggles(data, is_inside, before)
            while len(borders) < len(positions):
                # The line end before a position makes the position itself a start; that before the data was seen in
                # the last round.
                found = quotes.next_record_start(data, max(positions[len(borders)] - 1 - at, 0), toggles, is_inside)
                if found is None:
                    break
                borders.append(at + found)
            is_inside ^= bool(len(toggles) % 2)
            before = data[-1]
            at += len(data)
    return borders + [file_plan.file.size] * (len(positions) - len(borders))


def _read_whole_quotes(stream: Stream, dialect: quotes.Dialect) -> bytes:
    """The next bytes, not ending with a quote, which might be half of a doubled one."""
    data: bytes = stream.read(_SCAN_BYTES)
    while data.endswith(dialect.quote_byte) and (more := stream.read(1)):
        data += more
    return data
