"""The groups that failing records reject, over all passes, and the first records of these groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.correlation import ascending, findings, ordered, stored
from spark_jobs.execute.correlation.state import REJECTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.execute.correlation.facts import Facts


@dataclass
class Rejections:
    """Stores the groups that are rejected because of failing records.

    Args:
        folder: for tables that are long.
        needs_first_records: an output rejects groups by the policy `primary`.
        groups: the rejected groups, each with its first failure.
        whole: pairs of groups over all sources and their failed records, sorted.
        buckets: the buckets of these groups.
        first_records: pairs of groups and their first records, by groups. Only records that count as read are first
            records, even if they are filtered later.
        sought: the groups whose first records must be searched for, ascending.
        retracted: the retracted records, ascending. They are first records of no group.
    """

    folder: str
    needs_first_records: bool
    groups: pa.Table = field(default_factory=REJECTED.empty_table)
    whole: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    buckets: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    first_records: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    sought: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    retracted: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: The records that reject each group, if a policy depends on the first one.
    _failed: pa.Table = field(default_factory=findings.PAIRS.empty_table)

    def add(self, failures: Facts, rejected: pa.Table) -> None:
        """Reject the groups of some failures."""
        self.groups = findings.merge_rejected([self.groups, rejected], self.folder)
        self.buckets = findings.pairs(failures, ("whole", "bucket"), self.buckets, self.folder)
        self.whole = findings.pairs(failures, ("whole", "record"), self.whole, self.folder)
        if self.needs_first_records:
            self._failed = findings.pairs(failures, ("group", "record"), self._failed, self.folder)
            self._seek()

    def _seek(self) -> None:
        """Search for the first records of all rejected groups that lack one."""
        self.sought = ascending.without(self._numbers, self.first_records.column("group").to_numpy())

    @property
    def _numbers(self) -> np.ndarray:
        """The numbers of the rejected groups, ascending."""
        found: np.ndarray = self.groups.column("group").to_numpy()
        return found

    def learn_first_records(self, found: Facts) -> None:
        """Store the first records that tasks have found."""
        self.sought = self.sought[:0]
        self.first_records = findings.first_of_each(found, self.first_records, self.folder)

    def retract(self, records: np.ndarray) -> None:
        """Retract records: from now on others are the first records of their groups."""
        self.retracted = ascending.united(self.retracted, records)
        before = self.first_records.num_rows
        parts = map(self._without_retracted, stored.slices(self.first_records))
        self.first_records = stored.store_table(self.folder, findings.PAIRS, parts)
        if self.first_records.num_rows < before:
            self._seek()

    def _without_retracted(self, pairs: pa.Table) -> pa.Table:
        is_retracted = ascending.are_among(pairs.column("record").to_numpy(), self.retracted)
        return pairs.filter(pa.array(~is_retracted)) if is_retracted.any() else pairs

    def by_first_records(self) -> pa.Table:
        """The groups whose first record is among the records that reject them."""
        return stored.store_table(self.folder, REJECTED, self._by_first_records())

    def _by_first_records(self) -> Iterator[pa.Table]:
        names = findings.PAIRS.names
        for of_range in ordered.ranges([self.first_records, self._failed], names):
            both = pa.concat_tables(of_range).group_by(names).aggregate([([], "count_all")])
            is_in_both = both.column("count_all").to_numpy() == 2
            groups = np.sort(both.column("group").to_numpy()[is_in_both])
            first, last = np.searchsorted(self._numbers, groups[[0, -1]]) if len(groups) else (0, 0)
            some = self.groups.slice(first, last + 1 - first)
            yield some.filter(pa.array(ascending.are_among(some.column("group").to_numpy(), groups)))
