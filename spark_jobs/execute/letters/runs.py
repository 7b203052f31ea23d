"""The entries that tasks left, merged into the order of their records, a few blocks in memory."""

from __future__ import annotations

import bisect
import heapq
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.letters import gather
from spark_jobs.execute.letters.gather import Why
from spark_jobs.execute.tasks import part_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.execute.letters.marks import Holding


#: The run of an entry while runs are merged.
_RUN = pa.field("run", pa.int32())


@dataclass(frozen=True)
class SortedBlock:
    """A sorted block of a file: its first key, and the reasons that its entries name."""

    path: str
    file: pa.ipc.RecordBatchFileReader
    number: int
    first: tuple[int, ...]
    whys: tuple[Why, ...]


class Merged:
    """Entries of some files that name some splits; `whys` has the reasons of those that came so far.

    Args:
        files: the files.
        splits: the first and the last split.
        holding: for files of which only some entries count which these are.
    """

    def __init__(
        self, files: Sequence[str], splits: tuple[int, int], holding: Mapping[str, Holding] | None = None
    ) -> None:
        self._files = files
        self._holding = holding or {}
        self._splits = splits
        self._known: dict[Why, int] = {}

    @property
    def whys(self) -> list[Why]:
        """What the column `reason` of the parts counts."""
        return list(self._known)

    def parts(self) -> Iterator[pa.Table]:
        """The entries in their order, some thousands at a time.

        Blocks are read in the order of their first keys. What stands before the first key of all that is not read
        can come no more. Of entries with one key those of earlier runs come first, as they came to their tasks.
        """
        waiting = [(run[0].first, number, 0, run) for number, run in enumerate(self._runs())]
        heapq.heapify(waiting)
        held = gather.SCHEMA.append(_RUN).empty_table()
        while waiting:
            _, number, at, run = heapq.heappop(waiting)
            if at + 1 < len(run):
                heapq.heappush(waiting, (run[at + 1].first, number, at + 1, run))
            block = self._read(run[at])
            block = block.append_column(_RUN, pa.array(np.full(block.num_rows, number, dtype=np.int32)))
            held = pa.concat_tables([held, block]).combine_chunks()
            if not gather.is_sorted(held, (_RUN.name,)):
                held = held.sort_by([*gather.ORDER, (_RUN.name, "ascending")])
            ready = held.num_rows
            if waiting:
                bound = waiting[0][0]
                ready = bisect.bisect_left(range(held.num_rows), bound, key=lambda row: gather.key_at(held, row))
            if (part := self._chosen(held.slice(0, ready).drop_columns([_RUN.name]))).num_rows:
                yield part
            held = held.slice(ready)

    def _runs(self) -> list[list[SortedBlock]]:
        """The blocks that may name the splits, run by run."""
        found: list[list[SortedBlock]] = []
        for path in self._files:
            blocks = part_file.mapped(path)
            with part_file.unchanged(path), open(path + gather.INDEX, encoding="utf-8") as file:
                told = json.load(file)
            runs: dict[int, list[SortedBlock]] = {}
            for number, block in enumerate(told):
                low, high = block["splits"]
                if low <= self._splits[1] and high >= self._splits[0]:
                    whys = tuple(Why(**why) for why in block["whys"])
                    runs.setdefault(block["run"], []).append(
                        SortedBlock(path, blocks, number, tuple(block["first"]), whys)
                    )
            found += runs.values()
        return found

    def _read(self, block: SortedBlock) -> pa.Table:
        """A block with reasons as all blocks count them."""
        numbers = np.array([self._known.setdefault(why, len(self._known)) for why in block.whys], dtype=np.int32)
        with part_file.unchanged(block.path):
            table = pa.Table.from_batches([block.file.get_batch(block.number)])
        if block.path in self._holding:
            table = table.filter(pa.array(self._holding[block.path].of(table)))
        reason = pa.array(numbers[table.column("reason").to_numpy()])
        return table.set_column(table.schema.get_field_index("reason"), gather.SCHEMA.field("reason"), reason)

    def _chosen(self, table: pa.Table) -> pa.Table:
        splits = table.column("split").to_numpy()
        is_mine = (splits >= self._splits[0]) & (splits <= self._splits[1])
        return table if is_mine.all() else table.filter(pa.array(is_mine))
