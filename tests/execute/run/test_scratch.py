"""The scratch location: a folder or a prefix of a store, and the same files come of a run."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.execute import scratch
from spark_jobs.execute.scratch import Scratch
from spark_jobs.execute.tasks import materialized
from spark_jobs.plan.reading import workspace
from spark_jobs.stores import opening
from spark_jobs.stores.refusals import StoreError
from spark_jobs.stores.settings import StoreSettings
from tests.execute import correlated_runs, pipelines, without_spark
from tests.execute.tasks import test_splits
from tests.execute.tasks.test_splits import customers, orders, without_ids

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.object_store import AnyBucket, Bucket

SCHEMA = pa.schema([("n", pa.int64())])
SORTED = """
  - type: output
    name: in_order
    input: priced
    config:
      {name: in_order, type: csv, path: out/in_order.csv, sort_order: [customer, gross], split: {max_records: 150}}
"""


@pytest.fixture(params=["folder", "s3", "gcs", "azure", pytest.param("hdfs", marks=pytest.mark.spark)])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Scratch:
    if request.param == "folder":
        return Scratch(str(tmp_path))
    bucket: AnyBucket = request.getfixturevalue(request.param)
    store = opening.writable(StoreSettings().resolved())
    made = Scratch(bucket.uri("work/parts"), store, str(tmp_path))
    made.close()  # what follows knows of it because it has travelled
    travelled: Scratch = pickle.loads(pickle.dumps(made))
    return travelled


def test_what_is_written_is_read_again(room: Scratch) -> None:
    path = room.file("some")
    with scratch.create(path) as file:
        file.write(b"0123456789")
    assert scratch.size(path) == 10
    with scratch.opened(path) as file:
        file.seek(3)
        assert file.read(4) == b"3456"
    found = room.described(path, "shown")
    assert (found.path, found.name, found.size) == (path, "shown", 10)
    with pytest.raises((StoreError, OSError)):
        scratch.size(room.file("other"))


def test_records_are_read_by_ranges_by_partitions_and_whole(room: Scratch) -> None:
    path = room.file("records")
    writer = materialized.Writer(path, SCHEMA)
    for start in range(0, 100, 10):
        writer.write_batch(pa.record_batch([pa.array(range(start, start + 10))], schema=SCHEMA), start // 50)
    writer.close()
    assert writer.size == scratch.size(path)
    files = [materialized.MaterializedFile(path, 100)]
    numbers = [number for table in materialized.records(files, 15, 42) for number in table.column("n").to_pylist()]
    assert numbers == [*range(15, 42)]
    assert materialized.whole(files, 1).column("n").to_pylist() == [*range(50, 100)]
    assert materialized.whole(files).column("n").to_pylist() == [*range(100)]
    assert not [name for name in os.listdir(room.here) if name.startswith("clinker-")], "copies have no name"
    scratch.drop_copies()


def plain(folder: Path) -> str:
    pipeline = test_splits.PIPELINE.replace("nodes:\n", f"nodes:{SORTED}", 1)
    pipelines.write(
        folder,
        {
            "pipeline.yaml": pipeline,
            "orders.csv": orders(400, "\n", final=True, bom=False),
            "customers.csv": customers(100),
        },
    )
    return "orders.csv"


def correlated(folder: Path) -> str:
    pipelines.write(folder, correlated_runs.files(600))
    return "lines.csv"


@pytest.mark.parametrize("where", ["folder", "store"])
@pytest.mark.parametrize("prepare", [plain, correlated])
def test_a_run_gives_the_same_files_and_leaves_nothing(
    prepare: Callable[[Path], str], where: str, tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    cut = prepare(tmp_path)
    pipelines.with_splits(monkeypatch, tmp_path, cut, 2)
    assert pipelines.run(tmp_path).result.exit_code == 2
    expected = without_ids(pipelines.outputs(tmp_path))
    there = s3.uri("work") if where == "store" else "work"
    (tmp_path / "clinker.toml").write_text(f'[storage]\nscratch = "{there}"\n')
    written = keys_that_are_written(monkeypatch)
    assert pipelines.run(tmp_path, force=True).result.exit_code == 2
    assert without_ids(pipelines.outputs(tmp_path)) == expected
    assert bool(written) == (where == "store")
    assert s3.keys() == []
    assert s3.uploads() == []
    assert where == "store" or not list((tmp_path / "work").iterdir())


def keys_that_are_written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from spark_jobs.execute.delivery.objects.part_store import ObjectPartStore

    written: list[str] = []
    real = ObjectPartStore.create

    def create(store: ObjectPartStore, path: str) -> Any:
        written.append(path)
        return real(store, path)

    monkeypatch.setattr(ObjectPartStore, "create", create)
    return written


def test_what_a_dead_run_left_goes_with_the_next(tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    plain(tmp_path)
    (tmp_path / "clinker.toml").write_text(f'[storage]\nscratch = "{s3.uri("work")}"\n')
    s3.put("work/.clinker-dead-scratch/parts/loads-1", b"left")
    s3.put("work/somebody-elses", b"stays")
    assert pipelines.run(tmp_path).result.exit_code == 2
    assert s3.keys() == ["work/somebody-elses"]


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ("viewfs://bucket/work", "nothing is written to viewfs://"),
        ("s3:///work", "it names no bucket"),
        ("s3://key:secret@bucket/work", "a URI has no place for credentials"),
        ("ftp://machine/work", "nothing is written to ftp://"),
    ],
)
def test_a_location_that_leads_nowhere_is_told_before_the_run(tmp_path: Path, there: str, message: str) -> None:
    (tmp_path / "clinker.toml").write_text(f'[storage]\nscratch = "{there}"\n')
    found = Diagnostics()
    workspace.load(tmp_path, found)
    (told,) = found
    assert told.code.id == "E340"
    assert f"storage.scratch leads nowhere: {message}" in told.message
    assert "secret" not in told.message
