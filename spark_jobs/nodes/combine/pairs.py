"""Candidate rows of a combine: chains of a driver record and a record, or none, of each build side so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass
class Pairs:
    """Positions in the driver batch, ascending, and in each build side (-1: no record, null fields)."""

    driver: np.ndarray
    builds: dict[str, np.ndarray]

    def of_drivers(self, column: pa.Array) -> pa.Array:
        """The values of a driver's column for the chains; where each record has one, that is the column."""
        return column if self._stand_alone and len(column) == len(self.driver) else column.take(self._rows)

    @cached_property
    def _stand_alone(self) -> bool:
        """Whether the first chain is that of the first driver record, and so on."""
        return np.array_equal(self.driver, np.arange(len(self.driver)))

    @cached_property
    def _rows(self) -> pa.Array:
        return pa.array(self.driver)

    def take(self, chosen: np.ndarray) -> Pairs:
        """These chains, in this order."""
        return Pairs(self.driver[chosen], {name: rows[chosen] for name, rows in self.builds.items()})

    def slice(self, start: int, count: int) -> Pairs:
        """Some of them that stand together."""
        end = start + count
        return Pairs(self.driver[start:end], {name: rows[start:end] for name, rows in self.builds.items()})

    def without(self, drivers: Collection[int]) -> Pairs:
        """The chains of all other driver records."""
        return self.take(np.flatnonzero(~np.isin(self.driver, list(drivers))))

    def of(self, qualifier: str) -> Pairs:
        """The records of one build side that are in some chain of each driver record, each once, in build order."""
        rows = self.builds[qualifier]
        order = np.lexsort((rows, self.driver))
        driver, rows = self.driver[order], rows[order]
        is_new = (np.diff(driver, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
        kept = np.flatnonzero(is_new & (rows >= 0))
        return Pairs(driver[kept], {qualifier: rows[kept]})

    def first(self, *, is_complete: bool) -> Pairs:
        """One chain of each driver record: the first of those that have the most build records (decision 83).

        Args:
            is_complete: whether all chains have a record of every build side.
        """
        best = self
        if not is_complete:
            missing = np.sum([rows < 0 for rows in self.builds.values()], axis=0)
            best = self.take(np.lexsort((missing, self.driver)))  # stable: chains keep their order
        is_first = np.diff(best.driver, prepend=-1) != 0
        return best if is_first.all() else best.take(np.flatnonzero(is_first))

    def left_joined(self, chosen: np.ndarray, found: Pairs, qualifier: str) -> Pairs:
        """These chains going on with a build side: as `found`, or without a record of it, each in its place.

        Args:
            chosen: which of these chains each of `found` goes on from, ascending.
            found: the chains that match.
            qualifier: the build side.
        """
        is_unmatched = np.ones(len(self.driver), dtype=np.bool_)
        is_unmatched[chosen] = False
        rest = np.flatnonzero(is_unmatched)
        alone = self.take(rest)
        alone.builds[qualifier] = np.full(len(rest), -1)
        return _together(found, alone, np.argsort(np.concatenate([chosen, rest]), kind="stable"))

    def with_misses(self, missed: np.ndarray) -> Pairs:
        """Driver records without any match in their places, without build records."""
        none = np.full(len(missed), -1)
        alone = Pairs(missed, dict.fromkeys(self.builds, none))
        return _together(self, alone, np.argsort(np.concatenate([self.driver, missed]), kind="stable"))


def _together(found: Pairs, alone: Pairs, order: np.ndarray) -> Pairs:
    builds = {name: np.concatenate([rows, alone.builds[name]])[order] for name, rows in found.builds.items()}
    return Pairs(np.concatenate([found.driver, alone.driver])[order], builds)
