"""The entries that tasks left, merged into the order of their records, a few blocks in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute import part_file, scratch
from spark_jobs.execute.dlq import buffer
from spark_jobs.execute.dlq.buffer import ReasonKey
from spark_jobs.nodes import sorted_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_jobs.execute.report import DlqReport


#: Identifies a thing: a record or the row of an aggregate, and for a companion its driver.
_IDENTITY = ("split", "row", "group", "cause_split", "cause_row", "cause_group")
#: The columns of entries without those of their records: what they are counted by.
_NAMES = tuple(at for at, field in enumerate(buffer.SCHEMA) if not pa.types.is_list(field.type))


@dataclass(frozen=True)
class FileBlock:
    """A block of a file, and the reasons that its entries name."""

    path: str
    number: int
    whys: tuple[ReasonKey, ...]


def of_reports(reports: Sequence[DlqReport], splits: tuple[int, int], *, names_only: bool = False) -> Merged:
    """The entries of some reports that name some splits."""
    found = [each for each in reports if each.path and each.splits[0] <= splits[1] and each.splits[1] >= splits[0]]
    counting = {str(each.path): each.counts for each in found if each.counts is not None}
    return Merged([str(each.path) for each in found], splits, counting, names_only=names_only)


class Merged:
    """Entries of some files that name some splits; `whys` has the reasons of those that came so far.

    Args:
        files: the files.
        splits: the first and the last split.
        counting: for files of which only some entries count which these are. Where there are such files, a thing has
            entries of several passes, and only its first one is written.
        names_only: whether it is enough to know which entries there are, and why: their records stay on disk.
    """

    def __init__(
        self,
        files: Sequence[str],
        splits: tuple[int, int],
        counting: Mapping[str, Callable[[pa.Table], np.ndarray]] | None = None,
        *,
        names_only: bool = False,
    ) -> None:
        self._files = files
        self._counting = counting or {}
        self._splits = splits
        self._known: dict[ReasonKey, int] = {}
        self._fields = _NAMES if names_only else None
        self._once = _Once() if self._counting else None
        #: Files are opened when their blocks come: there may be more than a process can have open.
        self._opened = lru_cache(maxsize=part_file.MOST_OPEN)(partial(part_file.mapped, fields=self._fields))

    @property
    def whys(self) -> list[ReasonKey]:
        """The reasons that the column `reason` of the parts refers to by number."""
        return list(self._known)

    def parts(self) -> Iterator[pa.Table]:
        """The entries in their order, some thousands at a time.

        Entries with equal keys come in the order of their runs, as they were added by their tasks.
        """
        for found in sorted_runs.ranges(self._runs(), buffer.ORDERED, most=1):
            part = self._chosen(buffer.in_order(pa.concat_tables(found).combine_chunks()))
            if part.num_rows:
                yield part

    def _runs(self) -> list[list[sorted_runs.Block]]:
        """The blocks that may name the splits, run by run; a range is one block and what others have of its keys."""
        found: list[list[sorted_runs.Block]] = []
        for path in self._files:
            with part_file.unchanged(path), scratch.opened(path + buffer.INDEX) as file:
                blocks = json.load(file)
            runs: dict[int, list[sorted_runs.Block]] = {}
            for number, block in enumerate(blocks):
                low, high = block["splits"]
                if low <= self._splits[1] and high >= self._splits[0]:
                    read = partial(
                        self._read, FileBlock(path, number, tuple(ReasonKey(**why) for why in block["whys"]))
                    )
                    runs.setdefault(block["run"], []).append(sorted_runs.Block(tuple(block["first"]), 1, read))
            found += runs.values()
        return found

    def _read(self, block: FileBlock) -> pa.Table:
        """A block with reasons as all blocks count them."""
        numbers = np.array([self._known.setdefault(why, len(self._known)) for why in block.whys], dtype=np.int32)
        with part_file.unchanged(block.path):
            table = pa.Table.from_batches([self._opened(block.path).get_batch(block.number)])
        if block.path in self._counting:
            table = table.filter(pa.array(self._counting[block.path](table)))
        reason = pa.array(numbers[table.column("reason").to_numpy()])
        return table.set_column(table.schema.get_field_index("reason"), buffer.SCHEMA.field("reason"), reason)

    def _chosen(self, table: pa.Table) -> pa.Table:
        splits = table.column("split").to_numpy()
        is_mine = (splits >= self._splits[0]) & (splits <= self._splits[1])
        mine = table if is_mine.all() else table.filter(pa.array(is_mine))
        return mine if self._once is None or not mine.num_rows else self._once.first(mine)


class _Once:
    """Knows the entries of the last record, whose others may be in the next part."""

    def __init__(self) -> None:
        self._last = np.empty((0, len(_IDENTITY)), dtype=np.int64)

    def first(self, part: pa.Table) -> pa.Table:
        """The first entry of each thing; entries come by records."""
        whole = np.stack([part.column(name).to_numpy().astype(np.int64) for name in _IDENTITY], axis=1)
        known = len(self._last)
        everything = np.concatenate([self._last, whole])
        if (everything[1:, :2] != everything[:-1, :2]).any(axis=1).all():
            self._last = everything[-1:]
            return part
        once, first = np.unique(everything, axis=0, return_index=True)
        rows = np.sort(first[first >= known]) - known
        self._last = once[(once[:, :2] == everything[-1, :2]).all(axis=1)]
        return part if len(rows) == part.num_rows else part.take(pa.array(rows))
