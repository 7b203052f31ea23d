"""Outputs whose files are compressed: each piece is a member of its own, so that tasks write parts of one file."""

from __future__ import annotations

import bz2
import lzma
import zlib
from dataclasses import replace
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from spark_jobs.scan.compression import Compression

if TYPE_CHECKING:
    from spark_jobs.formats.format import Encoded, Writer

#: What is written in pieces is compressed when there is so much of it.
MEMBER_BYTES = 1 << 20


def pack(data: bytes | memoryview, compression: Compression) -> bytes:
    """Some bytes as a member."""
    match compression:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            packer = zlib.compressobj(wbits=31)  # unlike `gzip`, it writes no time
            return packer.compress(data) + packer.flush()
        case Compression.BZ2:
            return bz2.compress(data)
        case Compression.XZ:
            return lzma.compress(data, preset=1)
        case _:
            packed: bytes = pa.compress(data, str(compression), asbytes=True)
            return packed


class PackedFile:
    """A file that gets members of what is written to it.

    Args:
        file: gets the members.
        compression: how they are compressed; NONE writes the bytes as they are.
    """

    def __init__(self, file: IO[bytes], compression: Compression) -> None:
        self._file = file
        self._compression = compression
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Append some bytes."""
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size >= MEMBER_BYTES:
            self.finish()

    def finish(self) -> int:
        """Write what is held as a member; gives the size of the file."""
        if self._size:
            self._file.write(pack(b"".join(self._held), self._compression))
        self._held, self._size = [], 0
        return self._file.tell()


class PackedWriter:
    """A writer whose bytes are members; see `format.Writer`."""

    def __init__(self, inner: Writer, compression: Compression) -> None:
        self._inner = inner
        self._compression = compression
        self.start = self._member(inner.start)
        self.continued = self._member(inner.continued)
        self.separator = self._member(inner.separator)
        self.end = self._member(inner.end)
        self.empty = pack(inner.empty, compression)

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> Encoded:
        """The bytes of a batch; where records end in them nobody can tell."""
        assert not ends, "records that move are packed when they have come to rest"
        encoded = self._inner.encode(batch)
        return replace(encoded, data=self._member(encoded.data))

    def _member(self, data: bytes | memoryview) -> bytes:
        return pack(data, self._compression) if len(data) else b""
