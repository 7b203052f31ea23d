"""Small splits share a Spark task, large ones have one each; all are read once, in their order."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.execute import spec, work
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.execute.report import TaskReport


@dataclass(frozen=True)
class _Split:
    start: int
    end: int


@dataclass(frozen=True)
class _Place:
    split: _Split


@dataclass
class _Spec:
    splits: list[tuple[str, _Place]]
    pack_bytes: int


@given(st.lists(st.integers(0, 50)), st.integers(0, 100))
def test_packs_cover_all_splits(sizes: list[int], limit: int) -> None:
    given_ = _Spec([("s", _Place(_Split(7, 7 + size))) for size in sizes], limit)
    packs = spec.JobSpec.packs.func(given_)  # type: ignore[attr-defined]
    assert [index for pack in packs for index in pack] == list(range(len(sizes)))
    for pack in packs:
        assert len(pack) == 1 or sum(sizes[i] for i in pack) <= limit
    for pack, following in itertools.pairwise(packs):
        assert sum(sizes[i] for i in pack) + sizes[following.start] > limit


PIPELINE = """
    pipeline: {name: p}
    nodes:
      - {type: source, name: s, config: {name: s, type: csv, glob: "in/*.csv", schema: {id: int}}}
      - {type: output, name: o, input: s, config: {name: o, type: csv, path: out/o.csv}}
"""


@pytest.mark.slow
def test_many_small_files_are_read_by_few_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    packs: list[int] = []
    run = work.chain.run

    def counted(spark: object, wanted: spec.JobSpec) -> list[TaskReport]:
        packs.append(len(wanted.packs))
        return run(spark, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(work.chain, "run", counted)
    files = {f"in/{i:03}.csv": f"id\n{i}\n" for i in range(60)}
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, **files})
    assert pipelines.run(tmp_path).result.error is None
    assert packs == [1]
    assert pipelines.outputs(tmp_path)["o.csv"].split() == [b"id", *(str(i).encode() for i in range(60))]
