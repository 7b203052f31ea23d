"""What passes tell later ones of failed records and rejected groups: files of facts, and files of sorted numbers.

They may be millions, so tasks map such files and search them; no task or driver holds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.tasks import part_file

if TYPE_CHECKING:
    from collections.abc import Mapping

#: So many facts of a task, or bytes of them, are in memory; then they are written.
HELD_ROWS = 1 << 16
HELD_BYTES = 1 << 23
#: A record's row in its split; what is above is the number of the split.
ROW_BITS = 34
#: What a task has found: a failing record, or -1; the group that its failure rejects, or 0; the aggregate's group whose
#: row fails, or 0: its records are taken back unless that holds in the last pass alone; from when on it holds, why in
#: words, the group over all sources, or 0, and the number of the node among all.
FACTS = pa.schema([
    ("record", pa.int64()), ("group", pa.uint64()), ("aggregated", pa.int64()), ("holds", pa.int8()),
    ("source", pa.int32()), ("split", pa.int32()), ("row", pa.int64()), ("why", pa.string()), ("whole", pa.uint64()),
    ("bucket", pa.int64()), ("node", pa.int32()),
])  # fmt: skip
#: A file of rejected groups: their numbers, ascending, what failed first in them, and of which source that was. The
#: texts of all are one piece, which may be long.
REJECTED = pa.schema([("group", pa.uint64()), ("why", pa.large_string()), ("source", pa.int32())])
#: A file of groups whose first records are to be found, ascending.
SOUGHT = pa.schema([("group", pa.uint64())])
#: A file of dead records, ascending.
DEAD = pa.schema([("record", pa.int64())])
#: A file of aggregates' groups, ascending: those that are taken back, or whose rows have failed.
TRACED = pa.schema([("number", pa.int64())])
#: A file of groups that have too many records.
OVERSIZED = pa.schema([("group", pa.uint64()), ("first", pa.int64()), ("why", pa.string())])
#: Keys are in so many buckets where it is enough to know of groups what is so of all in a bucket.
BUCKETS = 1 << 23
#: Sizes of groups are counted by so many, which are several of those each: the groups of a bucket are together as large
#: as one of them at least.
SIZES = 1 << 18
#: In place of a bucket: the groups of a record that failed where its key was cut are still to be looked up.
KEYLESS = -2


class Notes:
    """What a task finds, on its way to a file of facts.

    Args:
        path: the file; there is none as long as there are few facts.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._held: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._file: part_file.PartFile | None = None

    def add(self, facts: pa.Table) -> None:
        """Note facts.

        Raises:
            OSError: they cannot be written.
        """
        self._held.append(facts)
        self._rows, self._bytes = self._rows + facts.num_rows, self._bytes + facts.nbytes
        if self._rows >= HELD_ROWS or self._bytes >= HELD_BYTES:
            self._write()

    def close(self) -> bool:
        """Write what is held; gives whether there is a file, because there are facts.

        Raises:
            OSError: that cannot be done.
        """
        if self._rows:
            self._write()
        if self._file is None:
            return False
        self._file.close()
        return True

    def _write(self) -> None:
        if self._file is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._file = part_file.PartFile(lambda path: pa.ipc.new_file(path, FACTS, options=options), self.path)
        for batch in pa.concat_tables(self._held).combine_chunks().to_batches():
            self._file.write_batch(batch)
        self._held, self._rows, self._bytes = [], 0, 0


@dataclass(frozen=True)
class Known:
    """What earlier passes have found: files of sorted numbers.

    Args:
        dead: the records that count as never read; None: there are none.
        rejected: the groups that are rejected, by the policy that rejects them.
        failed: the rows of aggregates that have failed in the last of them and take nothing back; None: there are none.
        unmade: the rows of aggregates that count as never made, because they have failed; the same.
        oversized: the groups that have too many records, with the first of these; None where there are none.
        traced: the groups of aggregates whose records are to be found; None in passes that find other things.
        sought: the groups whose first records are to be found; the same.
        taken: the records that were taken back, and are the first of no group; None in passes that find other things.
        counted: the buckets of groups whose records are to be counted; the same.
        keyless: the records whose groups are to be found; the same.
        keyless_rows: the rows of aggregates whose groups are to be found; the same.
        passes: how many these were.
        rounds: how many of them found more than those before.
        settles: whether others are to follow in any case, so that outputs at which nothing fails need not be written.
    """

    dead: str | None = None
    rejected: Mapping[str, str] = field(default_factory=dict)
    failed: str | None = None
    unmade: str | None = None
    oversized: str | None = None
    traced: str | None = None
    sought: str | None = None
    taken: str | None = None
    counted: str | None = None
    keyless: str | None = None
    keyless_rows: str | None = None
    passes: int = 0
    rounds: int = 0
    settles: bool = False

    @property
    def is_looking(self) -> bool:
        """Whether the pass is to find something, and makes no outputs."""
        wanted = (self.traced, self.sought, self.counted, self.keyless, self.keyless_rows)
        return any(each is not None for each in wanted)

    @property
    def looks_at_sources(self) -> bool:
        """Whether the pass finds what sources alone know, and no record goes on."""
        return self.sought is not None or self.keyless is not None

    @property
    def is_one_of_many(self) -> bool:
        """Whether others are likely to follow, so that reading the inputs anew for each of them is not worth it.

        Behind a pass that looks for the records of aggregates' groups there is one at least without these records.
        """
        return self.traced is not None or self.rounds > 1


@lru_cache(maxsize=64)
def stored(path: str, name: str) -> pa.Array:
    """A column of a file in one piece, mapped."""
    found = part_file.mapped(path).read_all().column(name)
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


def per_split(path: str | None) -> dict[int, int]:
    """How many records of a file each split has, by its number."""
    if path is None:
        return {}
    records = stored(path, "record").to_numpy()
    found: dict[int, int] = {}
    start = 0
    while start < len(records):
        split = int(records[start] >> ROW_BITS)
        end = int(np.searchsorted(records, (split + 1) << ROW_BITS))
        found[split], start = end - start, end
    return found


def record_numbers(split: pa.Array | pa.ChunkedArray, row: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A number for each record of a file."""
    numbers: np.ndarray = (split.to_numpy().astype(np.int64) << ROW_BITS) + row.to_numpy()
    return numbers
