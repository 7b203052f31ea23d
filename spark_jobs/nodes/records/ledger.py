"""The ledger: the fates of the records that reached a node, counted at the borders of its operators."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass
class Counters:
    """A node's counts in one task. Summed over all tasks they have to balance."""

    records_in: int = 0
    records_out: int = 0
    filtered: int = 0
    duplicates: int = 0
    dead: int = 0
    #: Dead records of a source whose value does not convert. They fail at the first node downstream, which is the stage
    #: of their dead letters, and the counters of that node include them.
    refused: int = 0
    #: Records that begin to exist here: children of `emit each`, copies of an inclusive route, matches, groups.
    made: int = 0
    #: Records that end here silently: members of groups, misses, unread branches, parents without children.
    absorbed: int = 0
    #: Records between the operators of the node, through an exchange or within their task.
    sent: int = 0
    received: int = 0
    #: Pieces of files that a source skipped, because the first filter downstream passes none of their records.
    passed_over: int = 0

    def add(self, other: Counters) -> None:
        """Add another task's counts."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))

    @property
    def more(self) -> int:
        """The net number of records that the node adds, as in reports: made minus absorbed."""
        return self.made - self.absorbed

    @property
    def imbalance(self) -> str | None:
        """The counts that do not balance, as a message; None if all do.

        An imbalance means that records were lost or invented, which is a bug.
        """
        if self.sent != self.received:
            return f"{self.sent} sent between its tasks are not {self.received} received"
        if self.records_in + self.more != self.records_out + self.filtered + self.duplicates + self.dead:
            return (
                f"{self.records_in} in and {self.more} made are not {self.records_out} out, {self.filtered} filtered, "
                f"{self.duplicates} duplicates and {self.dead} dead"
            )
        return None
