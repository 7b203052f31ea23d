"""The protocol between two processes: frames of a letter, a length, and so many bytes."""

from __future__ import annotations

import struct
from enum import Enum
from typing import IO

_HEAD = struct.Struct("<cQ")


class Kind(Enum):
    """The kinds of frames."""

    #: A new file: JSON with the decoder, its settings, the file's size and how much memory there is.
    OPEN = b"o"
    #: Some of its records are wanted: JSON for the decoder.
    BATCHES = b"b"
    #: The decoder's facts about the file: JSON.
    ABOUT = b"a"
    #: Some bytes of the file are wanted: an offset and a size.
    WANTED = b"w"
    #: These bytes.
    BYTES = b"f"
    #: A schema, or a batch of it, as a message of Arrow.
    SCHEMA = b"s"
    BATCH = b"r"
    #: There are no more.
    END = b"e"
    #: The file is refused: a text.
    REFUSED = b"x"
    #: The file needs more memory than there is.
    TOO_LARGE = b"m"


RANGE = struct.Struct("<QQ")


def send(sink: IO[bytes], kind: Kind, data: bytes | memoryview = b"") -> None:
    """Write a frame to the other process.

    Raises:
        OSError: nobody is there.
    """
    sink.write(_HEAD.pack(kind.value, len(data)))
    sink.write(data)
    sink.flush()


def receive(source: IO[bytes]) -> tuple[Kind, bytes]:
    """Read the next frame from the other process.

    Raises:
        EOFError: nobody is there any more.
    """
    kind, size = _HEAD.unpack(_exactly(source, _HEAD.size))
    return Kind(kind), _exactly(source, size)


def _exactly(source: IO[bytes], size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError
    return data
