"""The records that reach an output. A run reports them as ok, each one once however often it is written.

A task marks them by the split and the row that they were read from, a bit for each. Records of one split may come to
outputs in several tasks: downstream of exchanges, and in other jobs. So a task reports its bits, and all of them are
joined before they are counted. If they take more than a few bytes they are written to a file, so that reports do not
grow with the number of records.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.execute import scratch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_jobs.tuning import Tuning

#: The bits of a split are held in chunks of so many rows.
_CHUNK_BITS = 16
_CHUNK_ROWS = 1 << _CHUNK_BITS
#: A chunk is known by its split, and by its place there.
_PLACE_BITS = 31
#: So many chunks, about as many rows as a batch has, are marked at once.
_MOST_CHUNKS = 4
_SCHEMA = pa.schema([("chunk", pa.int64()), ("bits", pa.binary())])


@dataclass
class Bits:
    """The records that came to outputs in a task: how many, of which splits, and which ones.

    The bits are in the file `path`, or in `data` where they are few bytes.
    """

    count: int
    splits: tuple[int, int]
    data: str = ""
    path: str | None = None


class WrittenRows:
    """The records that came to outputs, in one task or in several."""

    def __init__(self) -> None:
        self._chunks: dict[int, np.ndarray] = {}

    def add(self, split: pa.Array, row: pa.Array) -> None:
        """Mark records. A group without records has the split -1, and is not marked."""
        splits, rows = split.to_numpy(), row.to_numpy()
        if len(splits) and splits.min() < 0:
            splits, rows = splits[splits >= 0], rows[splits >= 0]
        if not len(rows):
            return
        if splits[0] == splits[-1] and splits.min() == splits.max():
            first, last = int(rows.min()) >> _CHUNK_BITS, int(rows.max()) >> _CHUNK_BITS
            if last - first <= _MOST_CHUNKS:
                self._mark((int(splits[0]) << _PLACE_BITS) + first, last - first + 1, rows - (first << _CHUNK_BITS))
                return
        chunks = (splits.astype(np.int64) << _PLACE_BITS) | (rows >> _CHUNK_BITS)
        if np.any(chunks[1:] < chunks[:-1]):
            order = np.argsort(chunks, kind="stable")
            chunks, rows = chunks[order], rows[order]
        begins = [0, *(np.flatnonzero(chunks[1:] != chunks[:-1]) + 1).tolist(), len(rows)]
        for start, end in pairwise(begins):
            self._mark(int(chunks[start]), 1, rows[start:end] & (_CHUNK_ROWS - 1))

    def _mark(self, chunk: int, count: int, rows: np.ndarray) -> None:
        """Mark rows of some neighbouring chunks, counted from the beginning of the first."""
        found = np.zeros(int(rows.max()) + 1, dtype=bool)
        found[rows] = True
        bits = np.packbits(found)
        for number in range(count):
            part = bits[number * _CHUNK_ROWS // 8 : (number + 1) * _CHUNK_ROWS // 8]
            if number in (0, count - 1) or part.any():
                self._join(chunk + number, part)

    def join(self, found: Bits, splits: tuple[int, int]) -> None:
        """Mark the records of a task that some splits have."""
        for chunk, bits in _read(found):
            if splits[0] <= chunk >> _PLACE_BITS <= splits[1]:
                self._join(chunk, np.frombuffer(bits, dtype=np.uint8))

    def _join(self, chunk: int, bits: np.ndarray) -> None:
        known = self._chunks.get(chunk)
        if known is None:
            self._chunks[chunk] = bits
            return
        longer, shorter = (known, bits) if len(known) >= len(bits) else (bits, known)
        longer = longer.copy() if not longer.flags.writeable else longer
        longer[: len(shorter)] |= shorter
        self._chunks[chunk] = longer

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(int(np.bitwise_count(bits).sum()) for bits in self._chunks.values())

    def encoded(self, path: str, tuning: Tuning) -> Bits | None:
        """The bits for the report of a task; written to a file at `path` where there are many. None without a record.

        Args:
            path: the file.
            tuning: how many bytes are in the report itself, compressed, and how many chunks are written at once.

        Raises:
            OSError: the file cannot be written.
        """
        if not self._chunks:
            return None
        ordered = sorted(self._chunks)
        found = Bits(self.count, (ordered[0] >> _PLACE_BITS, ordered[-1] >> _PLACE_BITS))
        block = tuning.bits_chunks
        if len(ordered) <= block:
            packed = zlib.compress(self._block(ordered), 1)
            if len(packed) <= tuning.inline_bits_bytes:
                found.data = base64.b85encode(packed).decode()
                return found
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with scratch.ArrowFile(path, _SCHEMA, options) as writer:
            for start in range(0, len(ordered), block):
                writer.write_batch(self._batch(ordered[start : start + block]))
        found.path = path
        return found

    def _batch(self, chunks: list[int]) -> pa.RecordBatch:
        bits = [self._chunks[each].tobytes() for each in chunks]
        return pa.RecordBatch.from_arrays([pa.array(chunks, pa.int64()), pa.array(bits, pa.binary())], schema=_SCHEMA)

    def _block(self, chunks: list[int]) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _SCHEMA) as writer:
            writer.write_batch(self._batch(chunks))
        found: bytes = sink.getvalue().to_pybytes()
        return found


def _read(found: Bits) -> Iterator[tuple[int, bytes]]:
    """The chunks that a task reported, with their bits."""
    if found.path is None:
        batches: Iterable[Any] = pa.ipc.open_stream(zlib.decompress(base64.b85decode(found.data)))
        yield from _rows(batches)
        return
    with scratch.arrow(found.path) as file:
        reader = pa.ipc.open_file(file)
        yield from _rows(reader.get_batch(number) for number in range(reader.num_record_batches))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        chunks, bits = batch.columns
        yield from zip(chunks.to_pylist(), bits.to_pylist(), strict=True)
