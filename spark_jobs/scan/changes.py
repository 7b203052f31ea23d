"""Detects inputs that change while a run reads them.

A run takes note of its files once, when it begins, and must find the same files later. It ends if a file has another
inode, fewer bytes, or as many bytes with another modification time or inode change time, which no program can set back.
Appended bytes are ignored. A file that was overwritten by a longer one looks as if it had grown; its beginning and its
former end are compared to detect that.

An object with a version needs no second look: each range is requested on condition that the version is the same.
"""

from __future__ import annotations

import os
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError, InputFile
from spark_jobs.scan.unpacking import Unpacked
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from spark_jobs.stores.reading import ObjectReader

#: The diagnostic of a file that changed.
CHANGED = files.CHANGED
#: The warning of one that has more bytes.
GREW = "W211"
_EDGE_BYTES = 4096
#: The bytes of inputs that this process has read.
_read = 0


def bytes_read() -> int:
    """The bytes of inputs that this process has read so far, as they are stored; for progress alone."""
    return _read


def _count(size: int) -> None:
    global _read
    _read += size


class Stream:
    """The bytes that a file had when it was looked at: those after them are not there, and all others must be.

    It is a Python file as well, for libraries that want one.
    """

    closed = False

    def __init__(self, raw: pa.NativeFile | ObjectReader, file: InputFile) -> None:
        self._raw = raw
        self._file = file
        self._at = 0

    def size(self) -> int:
        """The file's size, as it was looked at."""
        return self._file.size

    def tell(self) -> int:
        """The position of the next byte."""
        return self._at

    def seek(self, position: int, whence: int = 0, /) -> int:
        """Go to a position."""
        position += (0, self._at, self._file.size)[whence]
        self._at = position
        with files.translated_errors(self._file.name):
            return int(self._raw.seek(position))

    def expect(self, end: int) -> None:
        """Tell a store that nothing from a position on is wanted, as far as is known: it fetches less in vain."""
        if self._file.is_object:
            cast("ObjectReader", self._raw).expect(end)

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def flush(self) -> None:
        """Do nothing: the stream is read-only."""

    def close(self) -> None:
        """Do nothing: the caller that opened the file closes it."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; none at the end.

        Raises:
            FormatError: the file ends too early or is gone (E907), or cannot be read.
        """
        left = self._file.size - self._at
        wanted = left if size < 0 else min(size, left)
        if wanted <= 0:
            return b""
        try:
            with files.translated_errors(self._file.name):
                data: bytes = self._raw.read(wanted)
        except FormatError as error:
            if _is_missing(error) and not self._file.is_immutable:  # the table of an immutable one says more
                raise _changed(self._file, "was removed", error) from error
            raise
        if not data:
            raise _changed(self._file, f"became shorter than the {self._file.size} bytes it had")
        self._at += len(data)
        _count(len(data))
        return data

    def edges(self) -> int:
        """A digest of the first and the last bytes; the position is the file's beginning afterwards.

        An object with a version needs none.
        """
        self.seek(0)
        if self._file.version:
            return 0
        digest = zlib.crc32(self.read(2 * _EDGE_BYTES))
        if self._file.size > 2 * _EDGE_BYTES:
            self.seek(self._file.size - _EDGE_BYTES)
            digest = zlib.crc32(self.read(_EDGE_BYTES), digest)
        self.seek(0)
        return digest


def _is_missing(error: FormatError) -> bool:
    """Whether a store has said that there is no such object."""
    return isinstance(error.__cause__, StoreError) and error.__cause__.kind is Kind.MISSING


def edges_of(data: bytes) -> int:
    """The value of `Stream.edges` for a file with these bytes."""
    digest = zlib.crc32(data[: 2 * _EDGE_BYTES])
    return zlib.crc32(data[-_EDGE_BYTES:], digest) if len(data) > 2 * _EDGE_BYTES else digest


@contextmanager
def opened(file: InputFile) -> Iterator[Stream]:
    """A file for reading, as it was looked at; it must be that one when it is opened, and still be when it is closed.

    A compressed one is unpacked while it is read.

    Raises:
        FormatError: it cannot be read, is no text of its encoding, or changed (E907).
    """
    with files.open_input(file) as raw:
        stream = Stream(raw, file)
        check(file, stream)
        try:
            with files.decoded(file.name):
                # It has the methods that readers use: they ask no compressed file for its size.
                yield cast("Stream", Unpacked(stream, file)) if file.is_compressed else stream
        except FormatError:
            # A file that seems to be broken may have been replaced by another one while it was read.
            check(file, stream)
            raise
        check(file, stream)


def content(file: InputFile) -> bytes:
    """All bytes of a small file, as `opened` gives them, with as few calls as can be: there may be thousands.

    It is not a compressed one: what is small can unpack to very much.

    Raises:
        FormatError: it cannot be read, or changed (E907).
    """
    if file.is_object:
        with opened(file) as stream:
            return b"".join(iter(lambda: stream.read(file.size), b""))
    with files.translated_errors(file.name, file.path):
        opened_file = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(opened_file, file.size)
            while len(data) < file.size and (more := os.read(opened_file, file.size - len(data))):
                data += more
            now = InputFile.of(file.path, file.name, os.fstat(opened_file))
        finally:
            os.close(opened_file)
    if _compared(file, now) and file.edges is not None:
        check(file)
    _count(len(data))
    return data


def check(file: InputFile, stream: Stream | None = None) -> int:
    """Check a file for changes. Returns the number of bytes by which it has grown since it was inspected.

    Args:
        file: the file as it was.
        stream: it, open, where it is.

    Raises:
        FormatError: it is another one, or its bytes changed (E907).
    """
    if file.version or file.is_immutable:
        return 0
    try:
        now = files.look_again(file)
    except FormatError as error:
        raise _changed(file, "was removed", error) from error
    more = _compared(file, now)
    if more and file.edges is not None and file.edges != _edges(file, stream):
        raise _changed(file, f"was written again: {file.size} bytes before, {now.size} now")
    return more


def _compared(file: InputFile, now: InputFile) -> int:
    """The number of bytes by which a file has grown, according to the file system."""
    if _is_another(file, now):
        raise _changed(file, "was replaced by another one")
    if now.size < file.size:
        raise _changed(file, f"became shorter: {file.size} bytes before, {now.size} now")
    if now.size == file.size and file.mtime_ns and now.mtime_ns and file.mtime_ns != now.mtime_ns:
        raise _changed(file, "was written again")
    if now.size == file.size and file.ctime_ns and now.ctime_ns and file.ctime_ns != now.ctime_ns:
        raise _changed(file, "was written again and its time set back, or its owner, mode or links were changed")
    return now.size - file.size


def grown(inputs: Iterable[InputFile]) -> list[str]:
    """Warnings about files that have grown.

    Raises:
        FormatError: one changed in another way (E907).
    """
    more = ((file, check(file)) for file in inputs)
    return [
        f"{GREW}: {file.name} grew by {size} bytes while the run read it; they are left out"
        for file, size in more
        if size
    ]


def _is_another(file: InputFile, now: InputFile) -> bool:
    """True if a path leads to another file. Inodes of another machine's devices prove nothing."""
    if file.identity is None or now.identity is None or file.identity[0] != now.identity[0]:
        return False
    return file.identity != now.identity


def _edges(file: InputFile, stream: Stream | None) -> int:
    if stream is None:
        with files.open_input(file) as raw:
            return Stream(raw, file).edges()
    at = stream.tell()
    found = stream.edges()
    stream.seek(at)
    return found


def _changed(file: InputFile, what: str, cause: FormatError | None = None) -> FormatError:
    text = f"the file {what}, while the run was reading it"
    return FormatError(text, file.name, CHANGED, unseen=cause.unseen if cause else None)
