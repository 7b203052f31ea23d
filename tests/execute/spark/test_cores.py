"""How many cores a process may use, and how many tasks run at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.spark import cores
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("groups", "files", "found"),
    [
        ("0::/app", {"app/cpu.max": "200000 100000"}, [2]),
        ("0::/app", {"app/cpu.max": "150000 100000\n"}, [2]),
        ("0::/app", {"app/cpu.max": "5000 100000"}, [1]),
        ("0::/app", {"app/cpu.max": "max 100000"}, []),
        ("0::/", {"cpu.max": "300000 100000"}, [3]),
        ("0::/a/b", {"a/b/cpu.max": "800000 100000", "a/cpu.max": "400000 100000"}, [8, 4]),
        ("0::/not/mounted/here", {"cpu.max": "200000 100000"}, [2]),
        ("4:cpu,cpuacct:/app", {"cpu/app/cpu.cfs_quota_us": "250000", "cpu/app/cpu.cfs_period_us": "100000"}, [3]),
        ("4:cpu,cpuacct:/docker/1", {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, [2]),
        ("4:cpu:/app", {"cpu/app/cpu.cfs_quota_us": "-1", "cpu/app/cpu.cfs_period_us": "100000"}, []),
        ("4:cpuset:/app\n5:memory:/", {"cpu/app/cpu.cfs_quota_us": "1"}, []),
        ("0::/app", {"app/cpu.max": "nonsense"}, []),
        ("garbage", {}, []),
    ],
    ids=str,
)
def test_quotas_of_control_groups(groups: str, files: dict[str, str], found: list[int], tmp_path: Path) -> None:
    pipelines.write(tmp_path, {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{k}": v for k, v in files.items()}})
    assert list(cores.quotas(tmp_path)) == found


def test_systems_without_control_groups_have_no_quotas(tmp_path: Path) -> None:
    assert list(cores.quotas(tmp_path)) == []


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux counts affinities")
def test_the_least_of_affinity_and_quotas_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 5})
    monkeypatch.setattr(cores, "quotas", lambda: iter([8]))
    assert cores.available() == 3
    monkeypatch.setattr(cores, "quotas", lambda: iter([8, 2]))
    assert cores.available() == 2


@pytest.mark.parametrize(
    ("master", "threads", "found"),
    [
        (None, None, 6),
        (None, 3, 3),
        ("local", 3, 1),
        ("local[2]", None, 2),
        ("local[2]", 8, 2),
        ("local[2,4]", None, 2),
        ("local[*]", None, 6),
        ("local[*,1]", 2, 6),
        ("spark://host:7077", None, 6),
        ("spark://host:7077", 3, 3),
        ("connect", 3, 3),
    ],
)
def test_tasks_at_a_time_are_those_of_the_master(
    master: str | None, threads: int | None, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "available", lambda: 6)
    assert cores.at_a_time(master, threads) == found
