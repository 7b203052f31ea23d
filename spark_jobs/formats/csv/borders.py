"""The true borders of records, where a guess was wrong.

Where a split of a CSV file begins is a guess, from the quotes that follow, whether a line end stands outside quotes.
Reading a split proves the guess of its successor: if a split that began right ends outside quotes, and not before its
start, the next one begins right; and the first begins at the file's start. When a split of a file fails in that, all
its splits are read again with the borders that are found here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.formats.csv import parser, quotes
from spark_jobs.scan import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.csv.options import CsvRead
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.changes import Stream

_SCAN_BYTES = 4 << 20


def exact_splits(file_plan: FilePlan, splits: Sequence[Split], options: CsvRead) -> list[Split]:
    """The splits of one file with true record borders, found by one pass over its bytes in bounded memory."""
    borders = exact_borders(file_plan, [split.start for split in splits[1:]], options)
    starts = [splits[0].start, *borders]
    ends = [*borders, splits[-1].end]
    return [
        replace(split, start=start, end=end, is_exact=True)
        for split, start, end in zip(splits, starts, ends, strict=True)
    ]


def exact_borders(file_plan: FilePlan, positions: Sequence[int], options: CsvRead) -> list[int]:
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
