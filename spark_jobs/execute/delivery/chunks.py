"""Cuts an output into numbered files (`docs/semantics/outputs.md`, "Several files for one output").

The parts of an output are divided by their indexes, which are read a block at a time. A chunk is a list of ranges of
parts; the records themselves are not read.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execute.delivery.destination import PartRange, check
from spark_jobs.nodes.output import records
from spark_jobs.nodes.output.step import ChunkRule, Oversize
from spark_jobs.scan import compression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.execute.delivery.destination import Destination, PartStore
    from spark_jobs.stores.location import FilePath

_SEQUENCE = re.compile(r"\{seq(?::(0\d{1,2}))?\}")
#: The stem and the extension of files that have none of their own.
_STEM, _EXTENSION = "output", "dat"
_UNLIMITED = 1 << 62
_MOST_WARNINGS = 20


def chunk_path(path: FilePath, naming: str, number: int) -> FilePath:
    """The file of a chunk; numbers begin with 1."""
    text = _SEQUENCE.sub(lambda found: format(number, found.group(1) or ""), _without_sequence(path, naming))
    return path.with_name(text)


def existing(there: Destination[FilePath], path: FilePath, naming: str) -> list[FilePath]:
    """The existing files whose names are names of chunks, whatever their numbers."""
    pieces = _SEQUENCE.split(_without_sequence(path, naming))[::2]
    pattern = re.compile(r"\d+".join(map(re.escape, pieces)))
    return [path.parent / name for name in there.names(path.parent) if pattern.fullmatch(name)]


def stem_and_ending(path: FilePath) -> tuple[str, str]:
    """The two parts of a file's name. The suffix of a compression belongs to the ending: `a`, `.csv.gz`."""
    end = len(path.name) - len(compression.ending(path.name))
    stem, point, last = path.name[:end].rpartition(".")
    if not stem:  # a name that begins with its only point has no ending
        stem, point, last = path.name[:end], "", ""
    return stem, point + last + path.name[end:]


@lru_cache(maxsize=16)  # an output may be very many chunks
def _without_sequence(path: FilePath, naming: str) -> str:
    stem, ending = stem_and_ending(path)
    known = {"{stem}": stem or _STEM, "{ext}": ending[1:] or _EXTENSION}
    return re.sub(r"\{stem\}|\{ext\}", lambda found: known[found.group()], naming)


@dataclass(slots=True)
class Chunk:
    """A file: ranges of parts, the records and bytes that they have, and `start` bytes before the first record."""

    ranges: list[PartRange] = field(default_factory=list)
    records: int = 0
    bytes: int = 0


@dataclass
class _Group:
    """The neighboring records of the `group_key` value that is being counted."""

    text: str | None = None
    records: int = 0
    bytes: int = 0


class OversizeGroup(Exception):
    """A single group exceeds the limit of a file, and `oversize_group` is `error`."""


class Cutter:
    """Cuts parts into chunks.

    Args:
        part_store: where the parts are.
        split: the limits.
        first: the bytes of the header in the first file.
        later: the bytes of the header in all other files.
    """

    def __init__(self, part_store: PartStore, split: ChunkRule, first: int, later: int) -> None:
        self._depot = part_store
        self.split = split
        self.chunks = [Chunk(bytes=first)]
        #: Warnings about groups that exceed the limit of a file.
        self.warnings: list[str] = []
        self._later = later
        self._group: _Group | None = None
        self._oversize = 0

    def add(self, part: PartRange) -> None:
        """Continue with the records of a part.

        Raises:
            OSError: the part differs from what was written.
        """
        check(self._depot, part)
        at = 0
        with records.index(self._depot.arrow, part.path) as index:
            for number in range(index.num_record_batches):
                block = index.get_batch(number)
                ends = at + np.cumsum(block.column(records.SIZE).to_numpy())
                if self.split.group_key is None:
                    borders = np.ones(len(ends), dtype=bool)
                else:
                    borders = self._borders(block.column(records.GROUP), at, ends)
                self._cut(part.path, at, ends, borders)
                at = int(ends[-1])
        if at != part.size:
            text = f"tells of {at} bytes, but {part.size} were written; run again"
            raise OSError(errno.EIO, text, part.path + records.SUFFIX)

    def end(self) -> None:
        """Finish after the last record."""
        self._close_group()
        if self._oversize > _MOST_WARNINGS:
            self.warnings.append(f"{self._oversize - _MOST_WARNINGS} more groups are larger than a file may be")

    def _cut(self, part: str, start: int, ends: np.ndarray, borders: np.ndarray) -> None:
        """Assign records to chunks. A new chunk begins when the last is full, at the next border between groups."""
        places = np.flatnonzero(borders)
        starts = np.concatenate([[start], ends[:-1]])
        done = 0
        while done < len(ends):
            full = self._full(starts, done)
            found = np.searchsorted(places, full)
            stop = int(places[found]) if found < len(places) else len(ends)
            self._take(part, int(starts[done]), ends, done, stop)
            if stop < len(ends):
                self.chunks.append(Chunk(bytes=self._later))
            done = stop

    def _full(self, starts: np.ndarray, done: int) -> int:
        """The first record, from `done` on, that does not fit into the last chunk."""
        chunk, split = self.chunks[-1], self.split
        found = len(starts)
        if split.max_records is not None:
            found = min(found, done + max(split.max_records - chunk.records, 0))
        if split.max_bytes is not None:
            wanted = int(starts[done]) + split.max_bytes - chunk.bytes
            found = min(found, max(int(np.searchsorted(starts, wanted)), done))
        return found if chunk.records else max(found, done + 1)

    def _take(self, part: str, start: int, ends: np.ndarray, done: int, stop: int) -> None:
        if stop == done:
            return
        chunk, size = self.chunks[-1], int(ends[stop - 1]) - start
        last = chunk.ranges[-1] if chunk.ranges else None
        if last is not None and last.path == part and last.start + last.size == start:
            chunk.ranges[-1] = PartRange(part, last.start, last.size + size)
        else:
            chunk.ranges.append(PartRange(part, start, size))
        chunk.records += stop - done
        chunk.bytes += size

    # ---- groups ------------------------------------------------------------------------------------------------------

    def _borders(self, texts: pa.Array, start: int, ends: np.ndarray) -> np.ndarray:
        """The positions at which a new group begins."""
        coded = pc.fill_null(texts.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
        borders = np.concatenate([[True], coded[1:] != coded[:-1]])
        borders[0] = self._group is None or texts[0].as_py() != self._group.text
        self._weigh(texts, borders, np.concatenate([[start], ends]))
        return borders

    def _weigh(self, texts: pa.Array, borders: np.ndarray, ends: np.ndarray) -> None:
        """Add a block's records to their groups. The first may have begun before the block, the last may continue."""
        inside = np.flatnonzero(borders)
        edges = np.concatenate([[0], inside[inside > 0], [len(borders)]])
        counts, sizes = np.diff(edges), np.diff(ends[edges])
        if borders[0]:
            self._close_group()
        if self._group is None:
            self._group = _Group(texts[0].as_py())
        self._group.records += int(counts[0])
        self._group.bytes += int(sizes[0])
        if len(counts) == 1:
            return
        self._close_group()
        for i in np.flatnonzero(self._is_oversize(counts[1:-1], sizes[1:-1])) + 1:
            self._report_oversize(_Group(texts[int(edges[i])].as_py(), int(counts[i]), int(sizes[i])))
        self._group = _Group(texts[int(edges[-2])].as_py(), int(counts[-1]), int(sizes[-1]))

    def _is_oversize(self, counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        over = np.zeros(len(counts), dtype=bool)
        if self.split.oversize_group is not Oversize.ALLOW:
            over |= counts > (self.split.max_records or _UNLIMITED)
            over |= sizes > (self.split.max_bytes or _UNLIMITED)
        return over

    def _close_group(self) -> None:
        group, self._group = self._group, None
        if group is not None and self._is_oversize(np.array([group.records]), np.array([group.bytes])).any():
            self._report_oversize(group)

    def _report_oversize(self, group: _Group) -> None:
        split = self.split
        what = "without a value" if group.text is None else f"'{group.text}'"
        limits = {"max_records": split.max_records, "max_bytes": split.max_bytes}
        listed = ", ".join(f"{name} is {limit}" for name, limit in limits.items() if limit is not None)
        key = split.group_key.name if split.group_key else ""
        text = f"the group {what} of '{key}' alone has {group.records} records, {group.bytes} bytes; {listed}"
        if split.oversize_group is Oversize.ERROR:
            raise OversizeGroup(text)
        self._oversize += 1
        if self._oversize <= _MOST_WARNINGS:
            self.warnings.append(text)


def cut(
    part_store: PartStore, parts: Sequence[PartRange], split: ChunkRule, first: int, later: int
) -> tuple[list[Chunk], list[str]]:
    """The chunks of some parts, at least one, and warnings.

    Raises:
        OversizeGroup: a single group exceeds the limit of a file, and that is an error.
        OSError: a part differs from what was written.
    """
    cutter = Cutter(part_store, split, first, later)
    for part in parts:
        cutter.add(part)
    cutter.end()
    return cutter.chunks, cutter.warnings
