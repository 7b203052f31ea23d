"""Windows of a fixed length: the windows of a moment, and the failures of late records.

Windows are numbered: window n begins n slides after the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns
from spark_jobs.cxl.failure import Category

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.aggregate.timed.time_window import TimeWindow
    from spark_jobs.nodes.aggregate.timed.watermarks import Numbers

#: The largest number of copies of records made at once, one for each window of a record.
COPIES = 262_144


@dataclass(frozen=True)
class Spans:
    """The windows of each record: from the first number to the last. A record has none if last is below first."""

    first: Numbers
    last: Numbers

    @classmethod
    def of(cls, window: TimeWindow, times: Numbers) -> Spans:
        """The windows of event times, in microseconds since the epoch."""
        return cls((times - window.size_us) // window.slide_us + 1, times // window.slide_us)

    def take(self, rows: Numbers) -> Spans:
        """The windows of some of the records."""
        return Spans(self.first[rows], self.last[rows])

    def copies(self, most: int = COPIES) -> Iterator[tuple[Numbers, Numbers]]:
        """Each record once for each of its windows: rows and windows in record order, at most `most` at a time."""
        counts = self.last - self.first + 1
        if counts.max(initial=0) <= 1:
            yield np.flatnonzero(counts), self.first[counts > 0]
            return
        ends = np.cumsum(counts)
        for start in range(0, int(ends[-1]), most):
            place = np.arange(start, min(start + most, int(ends[-1])))
            rows = np.searchsorted(ends, place, side="right")
            yield rows, self.first[rows] + place - (ends[rows] - counts[rows])


def closes(window: TimeWindow, numbers: Numbers) -> Numbers:
    """The watermark that closes each window."""
    return numbers * window.slide_us + (window.size_us + window.lateness_us)


def late(node: str, rows: Numbers, starts: Numbers, ends: Numbers) -> failure_columns.Failures:
    """Records that came after their windows had closed; the detail gives the bounds in nanoseconds."""
    details = pc.binary_join_element_wise(
        f"time-window {node}: record at event-time inside window [", _nanoseconds(starts), ", ", _nanoseconds(ends),
        ") (nanos) which had already closed", "",
    )  # fmt: skip
    reasons = (failure_columns.Reason(Category.LATE_RECORD),)
    none = np.zeros(len(rows), dtype=np.int64)
    return failure_columns.Failures(rows, reasons, none, pa.nulls(len(rows), pa.string()), details)


def _nanoseconds(times: Numbers) -> pa.Array:
    """Nanoseconds as texts: 64 bits are too few for the year 9999."""
    micros = pa.array(times)
    texts = pc.cast(micros, pa.string())
    return pc.if_else(pc.equal(micros, 0), texts, pc.binary_join_element_wise(texts, "000", ""))
