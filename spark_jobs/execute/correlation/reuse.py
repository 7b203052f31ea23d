"""Tasks whose results stay valid in the next pass: they have no excluded record and no record of a rejected group.

This holds if a plan is a single job without exchanges, because no record depends on the records of other tasks. A task
stores the groups of the records that it reads as a bitmap in a file, with a bit for each bucket of keys. Several groups
share a bucket, so a task may run again needlessly, but it is never skipped wrongly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.execute import scratch
from spark_jobs.execute.correlation import ascending
from spark_jobs.execute.correlation.state import per_split
from spark_jobs.nodes.records import identity
from spark_jobs.nodes.records.identity import KEY_BUCKETS, ROW_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from spark_jobs.execute.report import TaskReport

#: A file has at least this many bits for each bit that is set, so that most lookups of absent records find no bit.
_SPARSE = 64
_FEWEST = 1 << 10
#: With more rejected groups than this, nearly every task has read a record of one of them.
_MOST_BUCKETS = 1024


class GroupBitmap:
    """The groups of the records that a task reads."""

    def __init__(self) -> None:
        self._bits = np.zeros(KEY_BUCKETS, dtype=bool)

    def add(self, key: Sequence[pa.Array]) -> None:
        """Add groups by the texts of their key, field by field."""
        found = identity.key_buckets(key, KEY_BUCKETS)
        self._bits[found[found >= 0]] = True

    def write(self, path: str) -> None:
        """Write the bitmap, with a size that suits the number of groups.

        Raises:
            OSError: it cannot be written.
        """
        least = max(_SPARSE * int(self._bits.sum()), _FEWEST)
        shared = max(KEY_BUCKETS >> (least - 1).bit_length(), 1)
        bits = np.logical_or.reduce(self._bits.reshape(-1, shared), axis=1)
        with scratch.create(path) as file:
            file.write(np.packbits(bits).data)


def has_any(path: str, buckets: np.ndarray) -> bool:
    """True if a task has read records of groups in any of the given buckets (of `KEY_BUCKETS`).

    Raises:
        OSError: the file cannot be read.
    """
    with scratch.opened(path) as file:
        packed = np.frombuffer(file.read(), dtype=np.uint8)
    at = buckets // (KEY_BUCKETS // (8 * len(packed)))
    return bool((packed[at >> 3] & (128 >> (at & 7)).astype(np.uint8)).any())


def unaffected(
    reports: Iterable[TaskReport], excluded: str | None, oversized: np.ndarray, rejected: np.ndarray
) -> frozenset[int]:
    """The numbers of the tasks that would have the same results again.

    Args:
        reports: the reports of all tasks.
        excluded: the file of excluded records; None if there are none.
        oversized: the records of groups that are too large.
        rejected: the buckets of rejected groups.
    """
    if len(rejected) > _MOST_BUCKETS:
        return frozenset()
    splits = {*per_split(excluded), *ascending.each_once(oversized >> ROW_BITS).tolist()}

    def is_unaffected(report: TaskReport) -> bool:
        if report.group_bitmap is None or not splits.isdisjoint(each.number for each in report.splits):
            return False
        return not has_any(report.group_bitmap, rejected)

    return frozenset(report.number for report in reports if is_unaffected(report))
