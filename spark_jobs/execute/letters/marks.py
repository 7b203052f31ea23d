"""What dead letters say of correlation groups, and in which of a run's passes they count."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


class Holds(IntEnum):
    """In which passes an entry counts, where passes are repeated."""

    #: In the last: what failed is no record, and fails again unless it has become another.
    IN_LAST = 0
    #: From the pass on that found it: its record counts as never read from then on.
    FOR_GOOD = 1
    #: The same, once all is settled that stands behind no retractable aggregate (decision 105).
    BEHIND = 2
    #: No entry, but what a pass was to find: a record that is taken back out of an aggregate,
    TRACED = 3
    #: the first record of a group,
    FIRST = 4
    #: a bucket in which too many records may be of one group,
    SUSPECT = 5
    #: a record that came to an output, of a group in such a bucket.
    MEMBER = 6
    #: the groups of a record that failed where its key was not at hand.
    KEYED = 7


@dataclass(frozen=True)
class Marks:
    """What entries say of correlation groups.

    Args:
        holds: in which passes they count.
        groups: the number of the aggregate's group that each is; 0 for records.
        keys: the correlation key, field by field.
        shown: the columns of those that are no records; None where there are none, or nobody wants them.
    """

    holds: pa.Array
    groups: pa.Array
    keys: Sequence[pa.Array]
    shown: pa.RecordBatch | None = None
