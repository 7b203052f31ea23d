"""Cuts files into splits that are read on their own, exactly at record borders.

A split has nominal ends, which depend on file sizes alone. It owns the records that begin in it: it is read from the
first record start at or after its nominal start to the one at or after its nominal end. Both neighbours find this
border by the same rule from the same bytes, so nothing is read twice or left out. In a format whose records may have
line ends inside, the rule is a guess, which reading proves (`csv/borders.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.formats import byte_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.scan.changes import Stream

#: Finds a record start in bytes from the middle of a file.
StartIn = Callable[[bytes], "int | None"]

#: Bytes of a split of large inputs: some seconds of work for one core, and small enough for many cores.
SPLIT_BYTES = 64 << 20
#: Smaller inputs are spread, too: over so many tasks, as long as a task does not get less than `LEAST_SHARE_BYTES`.
_ENOUGH_TASKS = 4
LEAST_SHARE_BYTES = 8 << 20
#: The environment variable that sets another size than `SPLIT_BYTES`, for tests and tuning. Results never depend on it.
SPLIT_BYTES_VARIABLE = "CLINKER_SPLIT_BYTES"

_PROBE_BYTES = 64 << 10
_MOST_PROBED_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
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

    def takes(self, middle: int) -> bool:
        """Whether it has a piece of the file that is read as a whole, by the piece's middle.

        The first split has what stands before it, too, and the last one what stands after it.
        """
        return (self.start <= middle or self.index == 0) and (middle < self.end or self.is_last)


def configured_bytes() -> int:
    """The nominal size of splits of large inputs, in bytes."""
    return int(os.environ.get(SPLIT_BYTES_VARIABLE, SPLIT_BYTES))


def fair_bytes(total: int, most: int) -> int:
    """The share of a task in an input, in bytes: `most` of a large one, and less of one that would keep few cores busy.

    It follows from sizes alone, so that splits and partitions are the same on every machine.

    Args:
        total: the bytes of the whole input.
        most: the share in a large input.
    """
    return min(most, max(LEAST_SHARE_BYTES, total // _ENOUGH_TASKS))


def plan(file_plans: Sequence[FilePlan], split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """The splits of a source's files, by file and place. Sizes alone decide, never cores."""
    splits: list[Split] = []
    for number, file_plan in enumerate(file_plans):
        start, end = file_plan.data_start, file_plan.end
        if file_plan.is_whole or file_plan.file.most_records is not None or end <= start:
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


def actual_range(
    split: Split, stream: Stream, start_in: StartIn = byte_stream.next_line_start, *, guesses: bool = False
) -> tuple[int, int]:
    """The bytes that a split reads: its nominal range moved to where records start, or seem to.

    Args:
        split: the split.
        stream: its file.
        start_in: finds the first record start after the first byte of some bytes from the middle of the file; None
            where there is none.
        guesses: whether it may be wrong, which whoever reads the split finds out. An end before the start says that
            one of the two guesses is wrong.
    """
    if split.is_exact:
        return split.start, split.end
    if not guesses:
        return _between_lines(split, stream, start_in)
    start = split.start if split.index == 0 else _likely_start(stream, split.start, start_in)
    end = split.end if split.is_last else _likely_start(stream, split.end, start_in)
    return start, end


def _between_lines(split: Split, stream: Stream, start_in: StartIn) -> tuple[int, int]:
    """The lines that begin in a split, however long the last one is; nothing where one goes on through all of it."""
    start: int | None = split.start
    if split.index:
        start = _line_start(stream, split.start, start_in, split.end)
        if start is None or start >= split.end:
            return split.end, split.end
    end = None if split.is_last else _line_start(stream, split.end, start_in, None)
    assert start is not None
    return start, split.end if split.is_last else stream.size() if end is None else end


def _line_start(stream: Stream, position: int, start_in: StartIn, until: int | None) -> int | None:
    """The first line start at or after a position; None if there is none before the limit."""
    at = position - 1
    stream.seek(at)
    size = _PROBE_BYTES
    while (until is None or at < until) and (chunk := stream.read(size)):
        found = start_in(chunk)
        if found is not None:
            return at + found
        at += len(chunk)
        size = min(2 * size, _MOST_PROBED_BYTES)
    return None


def _likely_start(stream: Stream, position: int, start_in: StartIn) -> int:
    """The likely start of the first record at or after a position; the file's end if there is none."""
    at = position - 1
    stream.seek(at)
    data = b""
    while chunk := stream.read(max(_PROBE_BYTES, len(data))):
        data += chunk
        found = start_in(data)
        if found is not None:
            return at + found
        if len(data) >= _MOST_PROBED_BYTES:
            # No place outside of quotes was found. A wrong guess is noticed later, and cheaper than a search of the
            # whole file.
            return at + (byte_stream.next_line_start(data) or len(data))
    return stream.size()
