"""The first records of groups, which `primary` asks for: of those that count as read, filtered later or not."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spark_jobs.execute.correlation import ascending, findings


@dataclass
class Firsts:
    """What is known of them, and what is to be found.

    Args:
        pairs: groups with their first records, by groups.
        sought: the groups of which the first record is to be found, ascending.
        taken: the records that were taken back, ascending: they are the first of no group.
    """

    pairs: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    sought: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    taken: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def seek(self, groups: np.ndarray) -> None:
        """Of these groups the first records are to be known."""
        self.sought = ascending.without(groups, self.pairs.column("group").to_numpy())

    def learn(self, found: pa.Table) -> None:
        """The first records that tasks have seen."""
        self.sought = self.sought[:0]
        self.pairs = findings.first_of_each([self.pairs, found])

    def take_back(self, records: np.ndarray, groups: np.ndarray) -> None:
        """Records are taken back: others are the first of their groups from now on."""
        self.taken = ascending.united(self.taken, records)
        is_taken = ascending.are_among(self.pairs.column("record").to_numpy(), self.taken)
        if is_taken.any():
            self.pairs = self.pairs.filter(pa.array(~is_taken))
            self.seek(groups)
