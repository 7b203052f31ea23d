"""Plans the parts of an upload from which a store composes a file.

A store copies ranges of objects itself, but some stores require a minimal length of parts (5 MiB on S3, except for the
last one). So a task reads and sends shorter ranges (headers, separators, small ranges, and if needed the beginning of a
long range that follows them), and the store copies the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.execute.delivery.destination import PartRange, Segment, cut, length
from spark_jobs.stores.writing import SENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.stores.writing import Limits


@dataclass(frozen=True)
class UploadPart:
    """A part of an upload.

    Args:
        segments: its content, in order.
        copied: the range that the store copies; None if a task sends the part.
    """

    segments: tuple[Segment, ...]
    copied: PartRange | None = None

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(map(length, self.segments))


def upload_parts(segments: Iterable[Segment], size: int, limits: Limits) -> list[UploadPart]:
    """The parts of a file, at least one.

    Args:
        segments: the content of the file, in order.
        size: the size of the content in bytes.
        limits: the store's limits for the bytes and the number of parts.
    """
    share = -(-size // limits.most_parts)
    planning = _Planning(
        least_sent=max(limits.least_sent, share) if limits.least_sent else 0,
        least_copied=max(limits.least_copied, share),
        sent=max(SENT_BYTES, share),
        most_copied=max(limits.most_copied, share),
    )
    for each in segments:
        planning.add(each)
    planning.flush()
    return planning.found or [UploadPart((b"",))]


@dataclass
class _Planning:
    least_sent: int
    least_copied: int
    sent: int
    most_copied: int
    found: list[UploadPart] = field(default_factory=list)
    held: list[Segment] = field(default_factory=list)
    held_bytes: int = 0

    def add(self, segment: Segment) -> None:
        """Add the next segment of the file."""
        while size := length(segment):
            missing = max(self.least_sent - self.held_bytes, 0) if self.held else 0
            if isinstance(segment, PartRange) and size >= missing + self.least_copied:
                if missing:
                    self._hold(cut(segment, 0, missing))
                self.flush()
                segment = self._copied(cut(segment, missing, size))
            else:
                taken = min(size, self.sent - self.held_bytes)
                self._hold(cut(segment, 0, taken))
                segment = cut(segment, taken, size)
                if self.held_bytes >= self.sent:
                    self.flush()

    def flush(self) -> None:
        """Make a part of the buffered segments."""
        if self.held:
            self.found.append(UploadPart(tuple(self.held)))
        self.held, self.held_bytes = [], 0

    def _hold(self, segment: Segment) -> None:
        self.held.append(segment)
        self.held_bytes += length(segment)

    def _copied(self, part_range: Segment) -> Segment:
        """Copy as many whole parts of a range as possible. Returns the rest."""
        while isinstance(part_range, PartRange) and part_range.size >= self.least_copied:
            taken = cut(part_range, 0, min(part_range.size, self.most_copied))
            assert isinstance(taken, PartRange)
            self.found.append(UploadPart((taken,), taken))
            part_range = cut(part_range, taken.size, part_range.size)
        return part_range
