"""The inputs of tasks in a job's first stage: splits of files, or ranges of materialized records."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING

from spark_jobs.execute import scratch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_jobs.execute.scratch import Scratch
    from spark_jobs.nodes.source.split_origin import SplitInput
    from spark_jobs.plan.physical.fragments import PhysicalOperator
    from spark_jobs.tuning import Tuning


@dataclass(frozen=True, slots=True)
class Splits:
    """Splits of a source, which a task reads one after the other. It has the number of the first."""

    source: str
    splits: tuple[SplitInput, ...]

    @property
    def number(self) -> int:
        """The number of the task, over all sources."""
        return self.splits[0].number


@dataclass(frozen=True, slots=True)
class MaterializedRange:
    """Some records of what earlier jobs materialized for an operator, in the order in which it takes them.

    Args:
        op: the root that takes them.
        number: the number of the task, after those of all splits.
        start: the number of the first record.
        end: the number of the first record after the range.
        schedule: the file that says whose turn it is, where the records of several inputs go on in a drawn order.
    """

    op: str
    number: int
    start: int
    end: int
    schedule: str | None = None


#: The input of one task.
Load = Splits | MaterializedRange


def packed(splits: Iterable[tuple[str, SplitInput]], most_bytes: int, most_splits: int) -> list[Load]:
    """Pack splits into tasks: splits of a source that are small together share a task.

    Sizes and numbers alone decide, so results are the same on any cluster.

    Args:
        splits: the splits, by source.
        most_bytes: bytes that a task reads.
        most_splits: splits that a task reads: opening files takes time, which others could share.
    """
    loads: list[Load] = []
    pack: list[SplitInput] = []
    size, last = 0, ""
    for name, place in splits:
        length = place.split.end - place.split.start
        if pack and (name != last or size + length > most_bytes or len(pack) >= most_splits):
            loads.append(Splits(last, tuple(pack)))
            pack, size = [], 0
        last = name
        pack.append(place)
        size += length
    if pack:
        loads.append(Splits(last, tuple(pack)))
    return loads


def materialized_ranges(
    op: PhysicalOperator, counts: Sequence[int], size: int, first_number: int, most_bytes: int, room: Scratch
) -> list[Load]:
    """The materialized inputs of an operator, in ranges of about the same number of bytes.

    Args:
        op: the root.
        counts: how many records there are of each of its inputs.
        size: the bytes of all.
        first_number: the number of the first range.
        most_bytes: the bytes of a range. It has at least as many records as there are inputs, since it opens them all.
        room: where the order is written, if it has to be.
    """
    total = sum(counts)
    step = max(total * most_bytes // max(size, 1), len(counts), 1)
    path = room.file(f"schedule-{uuid.uuid4().hex}")
    schedule = path if op.step.schedule(counts, partial(scratch.create, path)) else None
    starts = enumerate(range(0, total, step), first_number)
    return [MaterializedRange(op.id, number, start, min(start + step, total), schedule) for number, start in starts]


def provide(loads: Sequence[Load], room: Scratch, tuning: Tuning) -> Sequence[Load]:
    """Provide them to tasks: as values, or in a file that all machines can read."""
    if len(loads) <= tuning.inline_loads:
        return tuple(loads)
    path = room.file(f"loads-{uuid.uuid4().hex}")
    starts, block = [0], tuning.load_block
    with scratch.create(path) as file:
        for first in range(0, len(loads), block):
            file.write(pickle.dumps(loads[first : first + block], protocol=pickle.HIGHEST_PROTOCOL))
            starts.append(file.tell())
    return LoadFile(path, len(loads), block, tuple(starts))


class LoadFile(Sequence[Load]):
    """Loads in a file, in blocks.

    Args:
        path: the file.
        count: how many loads there are.
        block: how many of them a block has.
        starts: where the blocks begin, and the last one ends.
    """

    def __init__(self, path: str, count: int, block: int, starts: tuple[int, ...]) -> None:
        self._path = path
        self._count = count
        self._block = block
        self._starts = starts

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Load:  # type: ignore[override]  # nobody asks for slices
        if not 0 <= number < self._count:
            raise IndexError(number)
        block, place = divmod(number, self._block)
        with scratch.opened(self._path) as file:
            return self._read(file, block)[place]

    def __iter__(self) -> Iterator[Load]:
        with scratch.opened(self._path) as file:
            for block in range(len(self._starts) - 1):
                yield from self._read(file, block)

    def _read(self, file: IO[bytes], block: int) -> list[Load]:
        file.seek(self._starts[block])
        found: list[Load] = pickle.loads(file.read(self._starts[block + 1] - self._starts[block]))
        return found
