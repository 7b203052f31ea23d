"""What every reader reads: some bytes in their order; and what reading them told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class ByteStream(Protocol):
    """Bytes in order; an empty read is the end."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes."""


@dataclass
class Stretch:
    """What reading a stretch told about it: records, bytes, and whether it ended with the end of a record."""

    records: int = 0
    bytes_read: int = 0
    is_closed: bool = True
    #: Whether there was a record that is too long for the reader's memory.
    is_too_long: bool = False
