"""Finds the true borders of records, where a guess was wrong.

The beginning of a split of a CSV file is a guess: from the quotes that follow, whether a line end is outside quotes.
Reading a split proves the guess of its successor: if a split that began correctly ends outside quotes, at or after its
end, the next one begins correctly; and the first begins at the file's start. If a split fails this test, all splits of
the file are read again with the borders that are found here.
"""

from __future__ import annotations

import bisect
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats.csv import parser, quotes, rewriting
from spark_jobs.scan import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.csv.options import CsvRead
    from spark_jobs.formats.csv.rewriting import Rewriting
    from spark_jobs.formats.splits import Split

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
    dialect, made = parser.dialect_of(options), rewriting.of(options)
    borders: list[int] = []
    is_inside, before = False, quotes.FILE_START
    at = file_plan.data_start
    with changes.opened(file_plan.file) as raw:
        raw.seek(at)
        stream: ByteStream = raw if made is None else made.stream(raw)
        while len(borders) < len(positions) and (data := _read_whole_quotes(stream, dialect)):
            toggles = dialect.toggles(data, is_inside, before)
            while len(borders) < len(positions):
                # The line end before a position makes the position itself a start; that before the data was seen in
                # the last round.
                wanted = positions[len(borders)] - 1 - at
                if made is None:
                    found = quotes.next_record_start(data, max(wanted, 0), toggles, is_inside)
                else:
                    found = _start_after(wanted + 1, data, toggles, is_inside, made)
                if found is None:
                    break
                borders.append(at + found)
            is_inside ^= bool(len(toggles) % 2)
            before = data[-1]
            at += len(data) if made is None else len(made.original(data))
    return [min(border, file_plan.end) for border in borders + [file_plan.end] * (len(positions) - len(borders))]


def _start_after(wanted: int, data: bytes, toggles: quotes.Positions, is_inside: bool, made: Rewriting) -> int | None:
    """The place in a file's own bytes of the first record start at or after one, in rewritten bytes."""
    array = np.frombuffer(data, dtype=np.uint8)
    starts = np.flatnonzero((array == ord("\n")) | (array == ord("\r"))) + 1
    starts = starts[(np.searchsorted(toggles, starts) % 2 == 1) == is_inside]
    first = bisect.bisect_left(starts, wanted, key=lambda start: len(made.original(data[: int(start)])))
    return None if first == len(starts) else len(made.original(data[: int(starts[first])]))


def _read_whole_quotes(stream: ByteStream, dialect: quotes.Dialect) -> bytes:
    """The next bytes, not ending with a quote, which might be half of a doubled one.

    Where comments and blanks depend on what stands before them in their line, it is whole lines.
    """
    data: bytes = stream.read(_SCAN_BYTES)
    ends = (b"\r", b"\n") if dialect.comment or dialect.has_blanks else ()
    while (data.endswith(dialect.quote_byte) or (ends and not data.endswith(ends))) and (more := stream.read(1)):
        data += more
    return data
