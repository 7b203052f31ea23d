"""Outputs into Delta tables with deletion vectors: what is deleted stays deleted, and what is replaced goes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.cli import recover as command
from spark_jobs.execute.delivery.delta import commit as delta_commit
from spark_jobs.formats.delta import log, storage
from spark_jobs.formats.delta.options import DeltaRead
from spark_jobs.formats.reader import SourceContext
from spark_jobs.stores.settings import StoreSettings
from tests import delta_tables
from tests.delta_tables import HandWritten, column, structure
from tests.execute import pipelines, without_spark
from tests.execute.delivery.merges import death_after_decision
from tests.execute.delivery.test_delta_outputs import BESIDE, Lake, done, row

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import AnyBucket

COLUMNS = structure(column("id", "long"), column("v", "string"), column("day", "date"))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    without_spark.install(monkeypatch)
    return Lake(tmp_path)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "v": [f"old {each}" for each in ids]})


def made(folder: Path, partition_by: tuple[str, ...] = ()) -> HandWritten:
    """A table with the rows 1, 3, 4, 6, 7 and 8; 0, 2 and 5 are deleted."""
    table = HandWritten(folder, COLUMNS, partition_by, ("deletionVectors",))
    in_file, _ = delta_tables.vector_files(folder, [0, 2], [7])
    days = [{"day": day} if partition_by else {} for day in ("2026-01-01", "2026-01-02")]
    more = {} if partition_by else {"day": pa.nulls(3, pa.date32())}

    def data(*ids: int) -> pa.Table:
        found = rows(*ids)
        return found.append_column("day", more["day"]) if more else found

    table.commit(
        table.file("a.parquet", data(0, 1, 2), partition=days[0], deletionVector=in_file),
        table.file("x y/b.parquet", data(3, 4, 5), partition=days[1], deletionVector=delta_tables.deletion_vector([2])),
        table.file("c.parquet", data(6, 7, 8), partition=days[1]),
    )
    log_file = folder / "_delta_log/00000000000000000000.json"
    log_file.write_text(log_file.read_text().replace("x y/b.parquet", "x%20y/b.parquet"))
    return table


def seen(table: DeltaTable) -> dict[int, str]:
    """What the library reads."""
    found = pa.table(table.scan()).to_pylist()
    assert len({each["id"] for each in found}) == len(found)
    return {each["id"]: each["v"] for each in found}


def actions(folder: Path, version: int) -> list[dict[str, Any]]:
    text = (folder / f"_delta_log/{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


OLD = {at: f"old {at}" for at in (1, 3, 4, 6, 7, 8)}


def test_records_are_merged(lake: Lake) -> None:
    made(lake.path)
    before = {each["add"]["path"]: each["add"] for each in actions(lake.path, 0) if "add" in each}
    said = "mode: merge, key: id"
    done(lake.write(row(1, v="new"), row(2, v="again"), row(9, v="more"), options=said))
    assert seen(DeltaTable(lake.path)) == {**OLD, 1: "new", 2: "again", 9: "more"}
    removed = [each["remove"] for each in actions(lake.path, 1) if "remove" in each]
    # Only a file with a row that goes is written again, and its vector goes with it.
    assert [each["path"] for each in removed] == ["a.parquet"]
    assert removed[0]["deletionVector"] == before["a.parquet"]["deletionVector"]
    done(lake.write(row(4, v="new"), row(7, v="new"), options=said))
    assert seen(DeltaTable(lake.path)) == {**OLD, 1: "new", 2: "again", 9: "more", 4: "new", 7: "new"}
    paths = {each["remove"]["path"] for each in actions(lake.path, 2) if "remove" in each}
    assert paths == {"x%20y/b.parquet", "c.parquet"}
    assert not [name for name in lake.left() if ".clinker" in name]
    # What is committed is known for done, and a version of the library follows.
    assert DeltaTable(lake.path).version() == 2
    done(lake.write(row(20, v="x")))
    assert len(seen(DeltaTable(lake.path))) == 9


def test_partitions_are_replaced(lake: Lake) -> None:
    made(lake.path, ("day",))
    done(lake.write(row(30, "2026-01-02", "new"), options="mode: overwrite_partitions"))
    assert seen(DeltaTable(lake.path)) == {1: "old 1", 30: "new"}
    removed = {each["remove"]["path"]: each["remove"] for each in actions(lake.path, 1) if "remove" in each}
    assert set(removed) == {"x%20y/b.parquet", "c.parquet"}
    assert removed["x%20y/b.parquet"]["deletionVector"]["cardinality"] == 1
    assert "deletionVector" not in removed["c.parquet"]
    done(lake.write(row(31, "2026-01-01", "a/b"), row(32, None, "n"), options="mode: overwrite_partitions"))
    assert seen(DeltaTable(lake.path)) == {30: "new", 31: "a/b", 32: "n"}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_records_are_appended_or_replace_all(mode: str, lake: Lake) -> None:
    made(lake.path)
    done(lake.write(row(40, v="new"), options=f"mode: {mode}"))
    assert seen(DeltaTable(lake.path)) == ({40: "new"} if mode == "overwrite" else {**OLD, 40: "new"})
    found = log.files(DeltaRead(), SourceContext(lake.folder, "lake/sales"), set())
    left = sum((file.table.records or 0) - int(file.table.deleted_rows.sum()) for file in found)
    assert left == (1 if mode == "overwrite" else 7)


@pytest.mark.parametrize("has_vectors", [False, True])
@pytest.mark.parametrize("options", ["mode: overwrite", "mode: overwrite_partitions", "mode: merge, key: id"])
def test_paths_may_be_spelled_as_others_do_it(options: str, has_vectors: bool, lake: Lake) -> None:
    """Spark leaves letters beyond ASCII alone, and what it escapes is not what the library escapes."""
    features = ("deletionVectors",) if has_vectors else ()
    table = HandWritten(lake.path, COLUMNS, ("v",), features)
    more = {"deletionVector": delta_tables.deletion_vector([0])} if has_vectors else {}
    data = pa.table({"id": [1, 2], "day": pa.nulls(2, pa.date32())})
    odd = table.file("v=ü*,(a)/a.parquet", data, partition={"v": "ü*,(a)"}, **more)
    odd["add"]["path"] = "v=ü*%2C(a)/a.parquet"
    table.commit(odd, table.file("v=b/b.parquet", data.set_column(0, "id", pa.array([5, 6])), partition={"v": "b"}))
    done(lake.write(row(2, v="ü*,(a)"), row(3, v="x/%:,'ä*"), options=options))
    kept = {} if options == "mode: overwrite" else {5: "b", 6: "b"}
    first = {} if has_vectors or "merge" not in options else {1: "ü*,(a)"}
    assert seen(DeltaTable(lake.path)) == {**kept, **first, 2: "ü*,(a)", 3: "x/%:,'ä*"}
    # What was written then is found by whoever comes next.
    done(lake.write(row(3, v="x/%:,'ä*"), row(2, v="ü*,(a)"), options=options))
    assert seen(DeltaTable(lake.path)) == {**kept, **first, 2: "ü*,(a)", 3: "x/%:,'ä*"}
    done(lake.write(row(9, v="b"), options="mode: overwrite"))
    assert seen(DeltaTable(lake.path)) == {9: "b"}


def test_new_columns_come_with_merged_records(lake: Lake) -> None:
    made(lake.path)
    text = '{"id": 1, "v": "new", "w": 7}\n'
    lake.write(options="mode: merge, key: id, evolve: true")
    pipeline = (lake.folder / "pipeline.yaml").read_text().replace("v: string }", "v: string, w: int }")
    (lake.folder / "pipeline.yaml").write_text(pipeline)
    (lake.folder / "in.ndjson").write_text(text)
    done(pipelines.run(lake.folder, force=True).result)
    assert seen(DeltaTable(lake.path)) == {**OLD, 1: "new"}
    found = pa.table(DeltaTable(lake.path).scan()).to_pylist()
    assert {each["id"]: each["w"] for each in found}[1] == 7


def test_another_writer_of_the_same_version_is_seen(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made(lake.path)
    real = delta_commit.Place.add_version

    def slower(self: Any, number: int, data: bytes, token: str) -> bool:
        (lake.path / f"_delta_log/{number:020}.json").write_text('{"commitInfo": {"timestamp": 1}}\n')
        return real(self, number, data, token)

    monkeypatch.setattr(delta_commit.Place, "add_version", slower)
    result = lake.write(row(1, v="new"), options="mode: merge, key: id")
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "somebody else was faster" in result.error.message
    assert seen(DeltaTable(lake.path)) == OLD
    assert not [name for name in lake.left() if name.endswith(".parquet") or ".clinker" in name]


def test_a_death_after_the_decision_is_completed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note beside the log has the vectors of the files that go."""
    made(lake.path)
    commits = (delta_commit.TableCommit, "is_completed"), (delta_commit.Place, "add_version")
    with death_after_decision(monkeypatch, *commits):
        lake.write(row(1, v="new"), options="mode: merge, key: id", nodes=BESIDE)
    assert seen(DeltaTable(lake.path)) == OLD
    assert command.main([str(lake.folder / "out"), str(lake.path)], lake.folder) == 0
    assert seen(DeltaTable(lake.path)) == {**OLD, 1: "new"}
    assert (lake.folder / "out/lines.csv").read_text().splitlines()[1:] == ["1,,new"]


def test_a_table_in_a_store_is_merged_into(lake: Lake, lake_bucket: AnyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    made(lake.folder / "local")
    delta_tables.copy(lake.folder / "local", lake_bucket, "lake/sales")
    uri = lake_bucket.uri("lake/sales")
    chosen: dict[str, Any] = {"path": uri, "allow_absolute_paths": True, "options": "mode: merge, key: id"}

    def there() -> DeltaTable:
        return DeltaTable(storage.address(uri), storage_options=storage.options(uri, StoreSettings().resolved()))

    done(lake.write(row(1, v="new"), row(3, v="new"), row(5, v="again"), **chosen))
    assert seen(there()) == {**OLD, 1: "new", 3: "new", 5: "again"}
    real = delta_commit.Place.add_version

    def slower(self: Any, number: int, data: bytes, token: str) -> bool:
        lake_bucket.put(f"lake/sales/_delta_log/{number:020}.json", '{"commitInfo": {"timestamp": 1}}\n')
        return real(self, number, data, token)

    made(lake.folder / "other")
    delta_tables.copy(lake.folder / "other", lake_bucket, "lake/sales/other")
    monkeypatch.setattr(delta_commit.Place, "add_version", slower)
    lake_bucket.delete("lake/sales/_delta_log/00000000000000000001.json")
    result = lake.write(row(1, v="newer"), **chosen)
    assert "somebody else was faster" in result.error.message
    assert seen(there()) == OLD


def test_a_death_before_a_version_has_its_name_leaves_nothing(tmp_path: Path) -> None:
    place = delta_commit.Place(str(tmp_path), "t", StoreSettings())
    (tmp_path / "_delta_log").mkdir()
    child = os.fork()
    if not child:
        os.link = lambda *_, **__: os._exit(9)
        place.add_version(1, b"{}", "token")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not [*(tmp_path / "_delta_log").iterdir()]


@pytest.mark.parametrize("has_unnamed", [True, False])
def test_a_version_is_written_once_whatever_the_file_system_has(
    has_unnamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def without(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "operation not supported")
        return real(path, flags, *more, **named)

    if not has_unnamed:
        monkeypatch.setattr(os, "open", without)
    place = delta_commit.Place(str(tmp_path), "t", StoreSettings())
    (tmp_path / "_delta_log").mkdir()
    assert place.add_version(1, b"first", "a")
    assert not place.add_version(1, b"second", "b")
    (found,) = (tmp_path / "_delta_log").iterdir()
    assert (found.name, found.read_bytes()) == (f"{1:020}.json", b"first")
