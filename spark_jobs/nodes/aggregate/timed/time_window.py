"""A `time_window` at run time: its lengths are in microseconds, like event times."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: No length is longer. From any moment in the years 1 to 9999 it leads out of them, and sums of a few still fit 64
#: bits.
_LONGEST_US = 20_000 * 366 * 86_400 * 1_000_000


class Kind(StrEnum):
    """The kinds of time windows: adjacent, at regular intervals, or ended by a pause between records of a key."""

    TUMBLING = "tumbling"
    HOPPING = "hopping"
    SESSION = "session"


@dataclass(frozen=True)
class TimeWindow:
    """A bound time window.

    Args:
        kind: the kind of window.
        size_us: the length of a window; for sessions the pause that ends one.
        slide_us: the distance between the starts of windows.
        lateness_us: how long a window stays open after the watermark has passed its end.
        sources: the number of sources. Nothing is late before each of them has delivered a record.
    """

    kind: Kind
    size_us: int
    slide_us: int
    lateness_us: int
    sources: int = 0

    @classmethod
    def of_seconds(cls, kind: Kind, size: float, slide: float, lateness: float) -> TimeWindow:
        """A window from lengths in seconds, which have at most three decimal places."""
        return cls(kind, *(min(round(seconds * 1_000_000), _LONGEST_US) for seconds in (size, slide, lateness)))

    @property
    def is_session(self) -> bool:
        """True for sessions: the records decide where a window ends."""
        return self.kind is Kind.SESSION
