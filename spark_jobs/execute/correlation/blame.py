"""The groups that failing records reject, over all passes, and what is known of the records that do so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.correlation import ascending, findings, stored
from spark_jobs.execute.correlation.firsts import Firsts
from spark_jobs.execute.tasks.facts import REJECTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.execute.correlation.noted import Facts


@dataclass
class Blame:
    """What failures of records have done to groups.

    Args:
        folder: for what is long.
        asks_for_firsts: whether it counts which records are the first of their groups.
        groups: the rejected groups, each with what failed first.
        whole: which failed records are of which groups over all sources, in this order.
        buckets: the buckets of these groups.
        firsts: the first records of rejected groups.
    """

    folder: str
    asks_for_firsts: bool
    groups: pa.Table = field(default_factory=REJECTED.empty_table)
    whole: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    buckets: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    firsts: Firsts = field(init=False)
    #: Which records reject which groups, where it is asked which is the first.
    _failed: pa.Table = field(default_factory=findings.PAIRS.empty_table)

    def __post_init__(self) -> None:
        self.firsts = Firsts(self.folder)

    def take(self, facts: Facts, rejected: pa.Table) -> None:
        """Failures reject groups."""
        self.groups = findings.joined([self.groups, rejected], self.folder)
        self.buckets = findings.pairs(facts, ("whole", "bucket"), self.buckets, self.folder)
        self.whole = findings.pairs(facts, ("whole", "record"), self.whole, self.folder)
        if self.asks_for_firsts:
            self._failed = findings.pairs(facts, ("group", "record"), self._failed, self.folder)
            self.firsts.seek(self.numbers)

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the rejected groups, ascending."""
        found: np.ndarray = self.groups.column("group").to_numpy()
        return found

    def of_firsts(self) -> pa.Table:
        """The groups whose first record is among those that reject them."""
        return stored.kept(self.folder, REJECTED, self._of_firsts())

    def _of_firsts(self) -> Iterator[pa.Table]:
        for some in self.firsts.among(self._failed):
            first, last = np.searchsorted(self.numbers, some[[0, -1]]) if len(some) else (0, 0)
            those = self.groups.slice(first, last + 1 - first)
            yield those.filter(pa.array(ascending.are_among(those.column("group").to_numpy(), some)))
