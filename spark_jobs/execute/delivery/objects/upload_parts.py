"""How a file is put together by a store: as the parts of an upload.

A store copies ranges of objects itself, but a part must have 5 MiB unless it is the last, copied or not. So what is
shorter (headers, separators, small pieces, and the beginning of a long one that follows them) is read and sent by a
task, and the rest is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.execute.delivery.destination import Piece, Segment, cut, length
from spark_jobs.stores.s3_writing import LEAST_PART_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

#: An upload has 10,000 parts at most. All but the last have at least so many-th of the bytes.
_MOST_PARTS = 9_000
#: What is sent has so many bytes, and what is copied at most so many.
_SENT_BYTES = 16 << 20
_COPIED_BYTES = 256 << 20


@dataclass(frozen=True)
class UploadPart:
    """A part of an upload: what stands in it, in order."""

    segments: tuple[Segment, ...]

    @property
    def copied(self) -> Piece | None:
        """The range that the store copies; None where a task sends the part."""
        first = self.segments[0]
        if len(self.segments) == 1 and isinstance(first, Piece) and first.size >= LEAST_PART_BYTES:
            return first
        return None

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return sum(map(length, self.segments))


def upload_parts(segments: Iterable[Segment], size: int) -> list[UploadPart]:
    """The parts of a file; one at least.

    Args:
        segments: what stands in the file, in order.
        size: how many bytes that is.
    """
    least = max(LEAST_PART_BYTES, -(-size // _MOST_PARTS))
    planning = _Planning(least)
    for each in segments:
        planning.add(each)
    planning.flush()
    return planning.found or [UploadPart((b"",))]


@dataclass
class _Planning:
    least: int
    found: list[UploadPart] = field(default_factory=list)
    held: list[Segment] = field(default_factory=list)
    held_bytes: int = 0

    def add(self, segment: Segment) -> None:
        """Go on with what comes next."""
        while size := length(segment):
            missing = max(self.least - self.held_bytes, 0) if self.held else 0
            if isinstance(segment, Piece) and size >= missing + self.least:
                if missing:
                    self._hold(cut(segment, 0, missing))
                self.flush()
                segment = self._copied(cut(segment, missing, size))
            else:
                taken = min(size, max(_SENT_BYTES, self.least) - self.held_bytes)
                self._hold(cut(segment, 0, taken))
                segment = cut(segment, taken, size)
                if self.held_bytes >= max(_SENT_BYTES, self.least):
                    self.flush()

    def flush(self) -> None:
        """What is held is a part."""
        if self.held:
            self.found.append(UploadPart(tuple(self.held)))
        self.held, self.held_bytes = [], 0

    def _hold(self, segment: Segment) -> None:
        self.held.append(segment)
        self.held_bytes += length(segment)

    def _copied(self, piece: Segment) -> Segment:
        """Copy as much of a piece as makes whole parts; gives what is left."""
        while (size := length(piece)) >= self.least:
            taken = min(size, max(_COPIED_BYTES, self.least))
            self.found.append(UploadPart((cut(piece, 0, taken),)))
            piece = cut(piece, taken, size)
        return piece
