"""Tasks that would do the same again: none of their records is dead, or of a rejected group.

So it is where a plan is a single job without exchanges: no record depends on those of other tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.execute.correlation import ascending
from spark_jobs.execute.tasks import presence
from spark_jobs.execute.tasks.facts import ROW_BITS, per_split

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from spark_jobs.execute.tasks.report import TaskReport

#: Where so many groups are rejected, nearly every task has read records of one.
_MOST_BUCKETS = 1024


def numbers(reports: Iterable[TaskReport], dead: str | None, oversized: np.ndarray, groups: np.ndarray) -> set[int]:
    """The numbers of these tasks.

    Args:
        reports: of all tasks.
        dead: the file of dead records; None: there are none.
        oversized: the records of groups that are too large.
        groups: the buckets of groups that are rejected.
    """
    if len(groups) > _MOST_BUCKETS:
        return set()
    splits = {*per_split(dead), *ascending.each_once(oversized >> ROW_BITS).tolist()}

    def is_untouched(report: TaskReport) -> bool:
        if report.present is None or not splits.isdisjoint(each.number for each in report.splits):
            return False
        return not presence.has_any(report.present, groups)

    return {report.number for report in reports if is_untouched(report)}
