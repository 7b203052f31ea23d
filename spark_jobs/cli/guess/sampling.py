"""The bytes that a guess looks at: the whole of a small file, and ranges from all over a large one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.scan import changes, compression, files
from spark_jobs.scan.compression import Compression

if TYPE_CHECKING:
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile
    from spark_jobs.stores.location import FilePath

#: Files of so many bytes, unpacked, are read whole.
WHOLE_BYTES = 16 << 20
_HEAD_BYTES = 4 << 20
_PIECE_BYTES = 256 << 10
#: The number of ranges besides the beginning; the last one is the end.
_PIECES = 24


@dataclass(frozen=True)
class Sample:
    """A sample of a file.

    Args:
        head: the bytes from its beginning on; all of them where the file is small.
        pieces: ranges from the rest of the file, in order, with their places; the last one is its end.
        size: how many bytes the file has, unpacked.
        compression: how it is compressed.
        is_named: whether its name tells that.
    """

    head: bytes
    pieces: tuple[tuple[int, bytes], ...]
    size: int
    compression: Compression = Compression.NONE
    is_named: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the sample is all of the file."""
        return not self.pieces

    @property
    def tail(self) -> bytes:
        """The end of the file."""
        return self.pieces[-1][1] if self.pieces else self.head

    @property
    def looked_at(self) -> int:
        """The number of bytes read."""
        return len(self.head) + sum(len(data) for _, data in self.pieces)


def read(path: FilePath, name: str) -> Sample:
    """The sample of a file.

    Args:
        path: the file.
        name: its name in messages.

    Raises:
        FormatError: it cannot be read, or is compressed and broken.
    """
    file = files.describe_named(path, name)
    with changes.opened(file) as stream:
        start = stream.read(8)
    named, packed = compression.of_name(name), compression.of_bytes(start)
    if packed is not Compression.NONE:
        from dataclasses import replace

        file = replace(file, compression=packed)
        with changes.opened(file) as stream:
            return _streamed(stream, packed, is_named=named is packed)
    with changes.opened(file) as stream:
        return _seeked(stream, file)


def _seeked(stream: Stream, file: InputFile) -> Sample:
    if file.size <= WHOLE_BYTES:
        return Sample(_all(stream, file.size), (), file.size)
    head = _all(stream, _HEAD_BYTES)
    step = (file.size - _HEAD_BYTES - _PIECE_BYTES) // (_PIECES - 1)
    pieces = []
    for at in [*(_HEAD_BYTES + number * step for number in range(_PIECES - 1)), file.size - _PIECE_BYTES]:
        stream.seek(at)
        pieces.append((at, _all(stream, _PIECE_BYTES)))
    return Sample(head, tuple(pieces), file.size)


def _streamed(stream: Stream, packed: Compression, *, is_named: bool) -> Sample:
    """A sample of a file whose size is known at its end alone: every range at first, then fewer and fewer."""
    head = _all(stream, WHOLE_BYTES + 1)
    size = len(head)
    if size <= WHOLE_BYTES:
        return Sample(head, (), size, packed, is_named)
    pieces: list[tuple[int, bytes]] = []
    stride, number, last = 1, 0, (size, b"")
    while data := _all(stream, _PIECE_BYTES):
        last = (size, data)
        if number % stride == 0:
            pieces.append(last)
            if len(pieces) == 2 * _PIECES:
                pieces, stride = pieces[::2], 2 * stride
        number += 1
        size += len(data)
    if not pieces or pieces[-1] is not last:
        pieces.append(last)
    return Sample(head[:_HEAD_BYTES], tuple(pieces), size, packed, is_named)


def _all(stream: Stream, size: int) -> bytes:
    parts, left = [], size
    while left and (data := stream.read(min(left, 1 << 20))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
