"""The first records of groups, which `primary` asks for: of those that count as read, filtered later or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.correlation import ascending, findings, ordered, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.execute.correlation.noted import Facts


@dataclass
class Firsts:
    """What is known of them, and what is to be found.

    Args:
        folder: for what is long.
        pairs: groups with their first records, by groups.
        sought: the groups of which the first record is to be found, ascending.
        taken: the records that were taken back, ascending: they are the first of no group.
    """

    folder: str
    pairs: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    sought: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    taken: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def seek(self, groups: np.ndarray) -> None:
        """Of these groups the first records are to be known."""
        self.sought = ascending.without(groups, self.pairs.column("group").to_numpy())

    def learn(self, found: Facts) -> None:
        """The first records that tasks have seen."""
        self.sought = self.sought[:0]
        self.pairs = findings.first_of_each(found, self.pairs, self.folder)

    def take_back(self, records: np.ndarray, groups: np.ndarray) -> None:
        """Records are taken back: others are the first of their groups from now on."""
        self.taken = ascending.united(self.taken, records)
        before = self.pairs.num_rows
        self.pairs = stored.kept(self.folder, findings.PAIRS, map(self._without_taken, stored.slices(self.pairs)))
        if self.pairs.num_rows < before:
            self.seek(groups)

    def _without_taken(self, pairs: pa.Table) -> pa.Table:
        is_taken = ascending.are_among(pairs.column("record").to_numpy(), self.taken)
        return pairs.filter(pa.array(~is_taken)) if is_taken.any() else pairs

    def among(self, failed: pa.Table) -> Iterator[np.ndarray]:
        """The groups whose first record is among pairs of groups and failed records, some at a time, ascending."""
        for firsts, of_range in ordered.ranges([self.pairs, failed], findings.PAIRS.names):
            both = pa.concat_tables([firsts, of_range]).group_by(findings.PAIRS.names).aggregate([([], "count_all")])
            known = both.column("count_all").to_numpy() == 2
            yield np.sort(both.column("group").to_numpy()[known])
