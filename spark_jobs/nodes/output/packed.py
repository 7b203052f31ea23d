"""Compressed files, as a sequence of concatenated members."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import IO

import pyarrow as pa

from spark_jobs.scan.compression import Compression

#: Output written in pieces is compressed in members of this many bytes.
MEMBER_BYTES = 1 << 20


def pack(data: bytes | memoryview, compression: Compression) -> bytes:
    """Compress bytes to a member."""
    match compression:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            packer = zlib.compressobj(wbits=31)  # unlike `gzip`, it writes no timestamp
            return packer.compress(data) + packer.flush()
        case Compression.BZ2:
            return bz2.compress(data)
        case Compression.XZ:
            return lzma.compress(data, preset=1)
        case _:
            packed: bytes = pa.compress(data, str(compression), asbytes=True)
            return packed


class PackedFile:
    """A file that stores its data as compressed members.

    Args:
        file: receives the members.
        compression: the compression; NONE writes the bytes as they are.
    """

    def __init__(self, file: IO[bytes], compression: Compression) -> None:
        self._file = file
        self._compression = compression
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. They are compressed once there are enough of them for a member."""
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size >= MEMBER_BYTES:
            self.finish()

    def finish(self) -> int:
        """Write the buffered bytes as a member. Returns the size of the file in bytes."""
        if self._size:
            self._file.write(pack(b"".join(self._held), self._compression))
        self._held, self._size = [], 0
        return self._file.tell()
