"""Counters downstream of an aggregate: totals of everything upstream.

When a group is made, all records upstream have been read. So counters are final downstream of an aggregate, while
elsewhere they depend on the order of records. Tasks broadcast their counts to later stages, and groups carry the totals
that programs downstream read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_jobs.nodes.records.ledger import Counters

#: The counters, by path.
COUNTERS = frozenset(
    [
        "source.count",
        "pipeline.total_count",
        "pipeline.ok_count",
        "pipeline.dlq_count",
        "pipeline.filtered_count",
        "pipeline.distinct_count",
    ]
)


@dataclass(frozen=True)
class Totals:
    """The totals that an aggregate reads, and the nodes that they cover.

    Args:
        members: the paths of the counters that are read.
        nodes: the aggregate, unless it has time windows, and everything upstream of it.
        sources: the sources among them.
        origins: the sources of the grouped records, without sources that a combine only looks up.
    """

    members: tuple[str, ...]
    nodes: frozenset[str]
    sources: frozenset[str]
    origins: frozenset[str]

    def values(self, counted: Mapping[str, Counters]) -> dict[str, int]:
        """The totals by path, from each node's counts before the groups were made."""
        mine = [counters for name, counters in counted.items() if name in self.nodes]
        total = _records(counted, self.sources)
        filtered = sum(counters.filtered for counters in mine)
        duplicates = sum(counters.duplicates for counters in mine)
        dead = sum(counters.dead for counters in mine)
        known = {
            "source.count": _records(counted, self.origins),
            "pipeline.total_count": total,
            "pipeline.ok_count": max(total - filtered - duplicates - dead, 0),
            "pipeline.dlq_count": dead,
            "pipeline.filtered_count": filtered,
            "pipeline.distinct_count": duplicates,
        }
        return {path: known[path] for path in self.members}


def _records(counted: Mapping[str, Counters], sources: Iterable[str]) -> int:
    return sum(counted[name].records_in for name in sources if name in counted)
