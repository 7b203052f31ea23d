"""Which groups a task has read records of: none is ever forgotten, and few are taken for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.execute.correlation import reuse
from spark_jobs.execute.correlation.reuse import GroupBitmap, has_any
from spark_jobs.execute.correlation.state import RECORDS
from spark_jobs.execute.report import Measure, TaskReport
from spark_jobs.nodes.records import identity
from spark_jobs.nodes.records.identity import KEY_BUCKETS, ROW_BITS

if TYPE_CHECKING:
    from pathlib import Path


def _buckets(names: list[str]) -> np.ndarray:
    return identity.key_buckets([pa.array(names, pa.string())], KEY_BUCKETS)


def _written(path: Path, names: list[str]) -> str:
    bitmap = GroupBitmap()
    bitmap.add([pa.array(names, pa.string())])
    bitmap.write(str(path))
    return str(path)


@pytest.mark.parametrize("count", [0, 1, 3, 1000, 300_000])
def test_all_groups_are_there_and_few_others(tmp_path: Path, count: int) -> None:
    path = _written(tmp_path / "present", [f"group {number}" for number in range(count)])
    mine = _buckets([f"group {number}" for number in range(min(count, 400))])
    assert all(has_any(path, mine[[place]]) for place in range(len(mine)))
    others = _buckets([f"{number} other" for number in range(400)])
    assert sum(has_any(path, others[[place]]) for place in range(400)) < 40
    assert (tmp_path / "present").stat().st_size <= max(128, 20 * count)


def test_records_without_a_group_leave_no_trace(tmp_path: Path) -> None:
    path = _written(tmp_path / "present", ["", ""])
    assert not has_any(path, np.arange(KEY_BUCKETS))


def test_a_task_holds_that_has_no_dead_record_and_none_of_a_rejected_group(tmp_path: Path) -> None:
    def report(number: int, name: str) -> TaskReport:
        splits = [Measure(number, 9, 99, is_consistent=True), Measure(number + 1, 9, 99, is_consistent=True)]
        return TaskReport(0, number, splits=splits, group_bitmap=_written(tmp_path / f"present-{number}", [name]))

    reports = [report(0, "a"), report(2, "b"), report(4, "c"), report(6, "d"), TaskReport(0, 8)]
    dead = tmp_path / "dead.arrow"
    with pa.ipc.new_file(dead, RECORDS) as file:
        file.write_table(pa.table([pa.array([(3 << ROW_BITS) + 5])], schema=RECORDS))
    oversized = np.array([4 << ROW_BITS])
    assert reuse.unaffected(reports, str(dead), oversized, _buckets(["d"])) == {0}
    assert reuse.unaffected(reports, None, oversized[:0], _buckets([])) == {0, 2, 4, 6}
    assert reuse.unaffected(reports, None, oversized[:0], np.arange(5000)) == set()
