"""Decompresses a file while it is read, in memory that does not grow with the file.

A file has one or more members. A file that ends within a member is broken: its decompressed bytes are incomplete.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.limits import UNPACKED_BYTES, UNPACKED_RATIO
from spark_jobs.scan import files
from spark_jobs.scan.compression import Compression
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile

_CHUNK_BYTES = 256 << 10
#: The compression ratio of ordinary texts.
_USUAL_RATIO = 4.0
#: The memory limit for unpacking XZ: its strongest usual setting needs as much.
_XZ_BYTES = 128 << 20


class Unpacked:
    """The unpacked content of a compressed file, with the interface of `changes.Stream`. Seeking back starts again."""

    def __init__(self, packed: Stream, file: InputFile) -> None:
        self._packed = packed
        self._file = file
        self._restart()

    def _restart(self) -> None:
        self._packed.seek(0)
        self._inner = _opened(self._packed, self._file.compression)
        self._at = 0

    def tell(self) -> int:
        """The position of the next byte."""
        return self._at

    def seek(self, position: int, /) -> int:
        """Go to a position, which takes as long as reading what is before it."""
        if position < self._at:
            self._restart()
        while self._at < position and self.read(min(position - self._at, _CHUNK_BYTES)):
            continue
        return self._at

    def read(self, size: int, /) -> bytes:
        """The next bytes, fewer only at the end, where there are none.

        Raises:
            FormatError: the file is in another format, ends within a member, or unpacks to far too many bytes.
        """
        with self._translated_errors():
            data: bytes = self._inner.read(size)
        self._at += len(data)
        if self._at > UNPACKED_BYTES and self._at > UNPACKED_RATIO * self._packed.tell():
            text = (
                f"unpacks to more than {UNPACKED_RATIO:,} times its size, which is not plausible for a file of records"
            )
            raise FormatError(text, self._file.name)
        return data

    def edges(self) -> int:
        """A digest of the first and the last bytes of the file; the position is the beginning afterwards."""
        found = self._packed.edges()
        self._restart()
        return found

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Within, errors of decompression become a `FormatError`; for calls of libraries alone."""
        import pyarrow as pa

        try:
            yield
        except (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException) as problem:
            reason = str(problem) or "it is broken"
            raise FormatError(
                f"is not a complete {self._file.compression} file: {reason}", self._file.name
            ) from problem


def with_ratios(inputs: Sequence[InputFile]) -> list[InputFile]:
    """The files with their compression ratios, each estimated from the largest file of its codec.

    Errors are not raised here: they are reported when the file is read.
    """
    ratios: dict[Compression, float] = {}
    for file in sorted(inputs, key=lambda each: each.size, reverse=True):
        if file.is_compressed and file.compression not in ratios:
            ratios[file.compression] = _ratio(file)
    return [replace(file, ratio=ratios.get(file.compression, 1.0)) for file in inputs]


def _ratio(file: InputFile) -> float:
    """The ratio of the beginning of a file."""
    try:
        with files.open_input(file) as raw, files.translated_errors(file.name):
            # Only these bytes are read, so the stream ends too early.
            head = raw.read(2 * _CHUNK_BYTES)
    except FormatError:
        return _USUAL_RATIO
    return _produced(head, file.compression) / max(len(head), 1)


def _produced(head: bytes, compression: Compression) -> int:
    """The unpacked size of the beginning of a compressed file, up to a limit."""
    import pyarrow as pa

    count = 0
    try:
        inner = _opened(io.BytesIO(head), compression)
        while count < UNPACKED_BYTES and (data := inner.read(_CHUNK_BYTES)):
            count += len(data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException):
        # It ends in the middle, of course.
        return max(count, len(head))
    return max(count, len(head))


def whole(data: bytes, compression: Compression) -> bytes:
    """Unpack the bytes of a small compressed file of our own."""
    if compression is Compression.NONE:
        return data
    inner = _opened(io.BytesIO(data), compression)
    found = b""
    while more := inner.read(_CHUNK_BYTES):
        found += more
    return found


def _opened(packed: Any, compression: Compression) -> Any:
    """A stream of the unpacked bytes: by a decompressor of Python if `_MEMBERS` has one, else by Arrow."""
    if compression in _MEMBERS:
        return _Members(packed, _MEMBERS[compression])
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), str(compression))


class _Members:
    """The content of consecutive members, with zeros between and after them."""

    def __init__(self, packed: Any, begin: Callable[[], Any]) -> None:
        self._packed = packed
        self._begin = begin
        self._one = begin()
        self._waiting = b""
        self._is_within = False

    def read(self, size: int) -> bytes:
        """So many bytes, fewer only at the end."""
        pieces = []
        while size > 0 and (data := self._some(size)):
            pieces.append(data)
            size -= len(data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _some(self, size: int) -> bytes:
        while True:
            if not self._is_within and not self._enter():
                return b""
            data: bytes = self._one.decompress(self._waiting, size)
            # Only zlib gives back what it did not take; the others keep it.
            self._waiting = getattr(self._one, "unconsumed_tail", b"")
            if self._one.eof:
                self._waiting, self._is_within = self._one.unused_data, False
            elif not data and not self._waiting:
                self._waiting = self._packed.read(_CHUNK_BYTES)
                if not self._waiting:
                    raise EOFError("it ends too early")
            if data:
                return data

    def _enter(self) -> bool:
        """Begin the next member; false at the end of the file."""
        self._waiting = self._waiting.lstrip(b"\0")
        while not self._waiting:
            data = self._packed.read(_CHUNK_BYTES)
            if not data:
                return False
            self._waiting = data.lstrip(b"\0")
        self._one, self._is_within = self._begin(), True
        return True


_MEMBERS: dict[Compression, Callable[[], Any]] = {
    Compression.GZIP: lambda: zlib.decompressobj(wbits=31),
    Compression.BZ2: bz2.BZ2Decompressor,
    Compression.XZ: lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_BYTES),
}
