"""Many small objects: tasks fetch their beginnings in batches, and each is read by one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.spark import spread
from spark_jobs.scan import files
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark
from tests.stores.faults import Fault, between

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import Bucket
    from tests.stores.faults import Request

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: TYPE, glob: 'BUCKET/in/*', schema: {id: int}}}
  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}
"""
COUNT = 23
BY_TASKS = Tuning(driver_heads=5, head_batch=8, head_pack=3)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def prepare(folder: Path, s3: Bucket, kind: str = "csv") -> None:
    pipelines.write(folder, {"pipeline.yaml": PIPELINE.replace("BUCKET", s3.uri("")[:-1]).replace("TYPE", kind)})
    for number in range(COUNT):
        text = f"id,extra{number % 4}\n{number},x\n" if kind == "csv" else f'{{"id": {number}, "e{number % 4}": 1}}\n'
        s3.put(f"in/{number:03}", text)


def run(folder: Path, tuning: Tuning) -> Any:
    return pipelines.run(folder, allow_absolute_paths=True, force=True, tuning=tuning).result


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_outputs_are_the_same_where_tasks_fetch_beginnings(
    kind: str, s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, s3, kind)
    assert run(tmp_path, Tuning()).error is None
    expected = pipelines.outputs(tmp_path)
    assert expected["o.csv"].count(b"\n") == COUNT + 1
    packs: list[int] = []
    real = spread.parallel_map

    def counted(spark: Any, function: Any, items: Any, **others: Any) -> Any:
        if function is files.beginnings:
            packs.extend(map(len, items))
        return real(spark, function, items, **others)

    monkeypatch.setattr(spread, "parallel_map", counted)
    assert run(tmp_path, BY_TASKS).error is None
    assert pipelines.outputs(tmp_path) == expected
    assert packs == [3, 3, 2, 3, 3, 2, 3, 3, 1]


def test_each_small_object_is_asked_for_once_by_the_driver_and_once_by_a_task(
    s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, s3)
    with between(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        assert run(tmp_path, Tuning()).error is None
        asked = [request.path for request in proxy.asked("GET") if "/in/0" in request.path]
    assert sorted(asked) == sorted(2 * [*dict.fromkeys(asked)])
    assert len(asked) == 2 * COUNT


def test_an_object_whose_beginning_is_refused_in_a_task_is_named(
    s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, s3)

    def refused(request: Request) -> Fault | None:
        return Fault(403, "AccessDenied") if request.method == "GET" and request.path.endswith("/in/017") else None

    with between(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        proxy.rule = refused
        error = run(tmp_path, BY_TASKS).error
    assert error.code == "E910"
    assert "/in/017" in error.message
    assert "s3:GetObject on the bucket" in error.message
