"""Watermarks: the event time that each source has reached before a record, over all tasks, without a second pass.

A window is closed for a record when every source has passed its end before that record. The task knows which sources
have passed it *within the task* when the record arrives (`WatermarkTracker`). It does not know the records before its
own first one, but these are the same for all its records. So records of a window for which the same set of sources had
passed are late together or not at all: they are grouped together, and the number of the set travels with their partial
group, in the column `PASSED`. Each task broadcasts the maxima of its sources, by the rank of its places, to all
partitions that receive its groups. They arrive there before any group, and groups arrive in the order of their ranks
(`ReceivedWatermarks`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_jobs.nodes.records.columns import WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

#: The number of a set of sources, among the sets of the task.
PASSED = WINDOW.of("passed")
#: Earlier than every time.
NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class EarlierMaxima:
    """The event time that each source had reached in a task before given records; `NEVER` before its first one."""

    before: Mapping[int, Numbers]


@dataclass
class WatermarkTracker:
    """Tracks the event time that each source has reached in one merge path of a task."""

    maxima: dict[int, int] = field(default_factory=dict)

    def take(self, times: Numbers, sources: Numbers) -> EarlierMaxima:
        """Add records; returns the watermarks before each."""
        present = [int(sources[0])] if len(sources) and (sources == sources[0]).all() else np.unique(sources).tolist()
        known = dict(self.maxima)
        running = {}
        for source in present:
            mine = times if len(present) == 1 else np.where(sources == source, times, NEVER)
            reached = np.maximum.accumulate(np.concatenate([[known.pop(source, NEVER)], mine]))
            running[source], self.maxima[source] = reached[:-1], int(reached[-1])
        others = {source: np.full(len(times), time) for source, time in known.items()}
        return EarlierMaxima({**running, **others})


@dataclass
class Sets:
    """Sets of sources, numbered in the order in which a task first sees them. Number 0 is the empty set."""

    numbers: dict[frozenset[int], int] = field(default_factory=lambda: {frozenset(): 0})

    def of(self, seen: EarlierMaxima, rows: Numbers, closes: Numbers) -> Numbers:
        """The number of the set of sources that had passed a time before each record.

        Args:
            seen: the event time that each source had reached before each record.
            rows: the positions of the records in `seen`.
            closes: the time for each of `rows`.
        """
        found: list[frozenset[int]] = [frozenset()]
        code = np.zeros(len(rows), dtype=np.int64)
        for source, running in seen.before.items():
            passed = running[rows] >= closes
            if not passed.any():
                continue
            if len(found) == 1:
                found, code = [*found, found[0] | {source}], passed.astype(np.int64)
                continue
            joint, code = np.unique(2 * code + passed, return_inverse=True)
            found = [found[each >> 1] | ({source} if each & 1 else frozenset()) for each in joint.tolist()]
        numbers = [self.numbers.setdefault(each, len(self.numbers)) for each in found]
        return np.array(numbers, dtype=np.int64)[code]

    def complete(self, count: int) -> Numbers:
        """The numbers of the sets with at least `count` sources."""
        return np.array([number for each, number in self.numbers.items() if len(each) >= count], dtype=np.int64)


def message(watches: Mapping[int, WatermarkTracker], sets: Sets, sample: list[Any]) -> bytes:
    """A task's report: the maxima of its merge paths by rank, its sets, and a sample of its groups' places."""
    maxima = {rank: watch.maxima for rank, watch in watches.items() if watch.maxima}
    return json.dumps({"maxima": maxima, "sets": [sorted(each) for each in sets.numbers], "sample": sample}).encode()


class ReceivedWatermarks:
    """The watermarks that the tasks before an exchange broadcast.

    Args:
        sources: the number of sources of the records.
    """

    def __init__(self, sources: int) -> None:
        self._sources = sources
        self._by_rank: dict[int, tuple[dict[int, int], list[frozenset[int]]]] = {}
        self._before: dict[int, int] = {}
        self._waiting: list[int] | None = None
        #: Samples of all tasks.
        self.sample: list[Any] = []

    def receive_message(self, message: bytes) -> None:
        """Add the watermarks of a task."""
        fields = json.loads(message)
        sets = [frozenset(each) for each in fields["sets"]]
        for rank, maxima in fields["maxima"].items():
            self._by_rank[int(rank)] = ({int(source): time for source, time in maxima.items()}, sets)
        self.sample += fields["sample"]

    def reached(self, rank: int, numbers: Numbers) -> Numbers:
        """The time that all sources had reached before records of a rank, leaving out the sources of a record's set.

        `NEVER` if no time is certain, and the greatest time if the set has all sources. Ranks are asked for in
        ascending order.

        Args:
            rank: the rank of the records' places.
            numbers: the number of each record's set.
        """
        before, (_, sets) = self.before(rank), self._by_rank[rank]
        distinct, places = np.unique(numbers, return_inverse=True)
        times = np.array([self._least(before, sets[number]) for number in distinct.tolist()], dtype=np.int64)
        return times[places]

    def before(self, rank: int) -> Mapping[int, int]:
        """The event time that each source had reached before records of a rank."""
        if self._waiting is None:
            self._waiting = sorted(self._by_rank, reverse=True)
        while self._waiting and self._waiting[-1] < rank:
            for source, time in self._by_rank[self._waiting.pop()][0].items():
                self._before[source] = max(time, self._before.get(source, time))
        return self._before

    def _least(self, before: Mapping[int, int], passed: frozenset[int]) -> int:
        others = sorted(time for source, time in before.items() if source not in passed)
        missing = self._sources - len(passed)
        if not missing:
            return int(np.iinfo(np.int64).max)
        return others[0] if len(others) == missing else int(NEVER)
