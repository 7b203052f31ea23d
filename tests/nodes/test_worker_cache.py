"""Tasks of the same work use the values of those before; no other task ever sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.nodes import worker_cache
from spark_jobs.nodes.combine.index import BuildTable
from spark_jobs.nodes.combine.run import Combine
from tests.execute import combines, pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    worker_cache.drop()
    yield
    worker_cache.drop()


class _Equal:
    """Equal to all others of its kind."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Equal)

    def __hash__(self) -> int:
        return 0


def test_a_value_is_there_for_tasks_of_the_same_work() -> None:
    job, step = _Equal(), _Equal()
    for _ in range(3):
        worker_cache.begin(job, (0, "orders"))
        worker_cache.put(step, "b", "value")  # type: ignore[arg-type]
    worker_cache.begin(job, (0, "orders"))
    assert worker_cache.take(step, "b") == "value"  # type: ignore[arg-type]
    assert worker_cache.take(step, "b") is None  # type: ignore[arg-type]


@pytest.mark.parametrize("other", ["job", "root", "step", "name", "nothing"])
def test_other_work_never_sees_it(other: str) -> None:
    job, step = _Equal(), _Equal()
    worker_cache.begin(job, (0, "orders"))
    worker_cache.put(step, "b", "value")  # type: ignore[arg-type]
    if other == "nothing":
        worker_cache.drop()
    worker_cache.begin(_Equal() if other == "job" else job, (1 if other == "root" else 0, "orders"))
    asked: Any = _Equal() if other == "step" else step
    assert worker_cache.take(asked, "c" if other == "name" else "b") is None


@pytest.mark.parametrize("shape", combines.SHAPES)
def test_build_sides_are_indexed_once_for_all_splits(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are those of one split, and of splits that each index for themselves."""
    without_spark.install(monkeypatch)
    combines.write(tmp_path, combines.SHAPES[shape])
    indexed: list[int] = []
    index = BuildTable.index.__func__  # type: ignore[attr-defined]

    def counted(cls: type[BuildTable], *arguments: Any) -> BuildTable:
        made: BuildTable = index(cls, *arguments)
        indexed.append(made.records.num_rows)
        return made

    monkeypatch.setattr(BuildTable, "index", classmethod(counted))
    found, counts = [], []
    for split, leaves in ((10**9, True), (1500, True), (1500, False)):
        monkeypatch.setattr(Combine, "_caches_builds", leaves)
        indexed.clear()
        pipelines.cut_by(monkeypatch, split, 10**9)
        outcome = pipelines.run(tmp_path, force=True)
        assert outcome.result.error is None
        outputs = pipelines.outputs(tmp_path)
        dead = combines.dead(outputs.pop("dead.csv", b""))
        found.append((outputs, dead, {name: dict(node) for name, node in outcome.nodes.items()}))
        counts.append(len(indexed))
    assert found[0] == found[1] == found[2]
    assert counts[0] == counts[1]
    # Groups that drive meet the build side in the one partition of their exchange.
    assert counts[2] > counts[1] or shape == "groups that drive"
