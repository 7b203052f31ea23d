"""A `time_window` as it runs: its lengths are in microseconds, like event times."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: No length is longer: it leads out of the years 1 to 9999 from any moment in them, and sums of some fit 64 bits.
_LONGEST_US = 20_000 * 366 * 86_400 * 1_000_000


class Kind(StrEnum):
    """The kinds of time windows: end to end, at regular intervals, or as long as records of a key keep coming."""

    TUMBLING = "tumbling"
    HOPPING = "hopping"
    SESSION = "session"


@dataclass(frozen=True)
class TimeWindow:
    """A bound time window.

    Args:
        kind: which windows there are.
        size_us: how long a window is; of sessions the pause that ends one.
        slide_us: how far apart windows begin.
        lateness_us: how long a window stays open when the watermark has passed its end.
        sources: from how many sources records come; nothing is late before each of them has delivered a record.
    """

    kind: Kind
    size_us: int
    slide_us: int
    lateness_us: int
    sources: int = 0

    @classmethod
    def of_seconds(cls, kind: Kind, size: float, slide: float, lateness: float) -> TimeWindow:
        """A window by lengths in seconds, which have three digits after the decimal point at most."""
        return cls(kind, *(min(round(seconds * 1_000_000), _LONGEST_US) for seconds in (size, slide, lateness)))

    @property
    def is_session(self) -> bool:
        """Whether records decide where windows end."""
        return self.kind is Kind.SESSION
