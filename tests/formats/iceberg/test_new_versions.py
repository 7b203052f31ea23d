"""Tables of which each run reads what versions have added: Delta by its log, Iceberg by its snapshots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.manifest import DataFileContent

from spark_jobs.cli import clinker
from tests import iceberg_tables
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from tests.object_store import Bucket

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: rows
    config:
      type: {kind}
      {what}
      incremental: true
      schema: {{ id: int }}
      on_unmapped: drop
  - type: output
    name: o
    input: rows
    config: {{ type: csv, path: out/rows, include_header: false }}
"""
BOOKMARK = "out/.clinker-p.bookmark.json"


class Growing:
    """A folder with a pipeline that reads what is new in a table."""

    kind = what = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.error: Any = None

    def append(self, *ids: int, **more: Any) -> None:
        raise NotImplementedError

    def run(self, *, code: int = 0, what: str = "", **chosen: Any) -> list[int]:
        """The ids of a run."""
        text = PIPELINE.format(kind=self.kind, what=what or self.what)
        pipelines.write(self.folder, {"pipeline.yaml": text})
        outcome = pipelines.run(self.folder, force=True, **chosen)
        self.error = outcome.result.error
        assert outcome.result.exit_code == code, self.error
        return sorted(int(line) for line in (self.folder / "out/rows").read_text().split()) if code == 0 else []

    @property
    def mark(self) -> Any:
        path = self.folder / BOOKMARK
        return json.loads(path.read_text())["sources"]["rows"] if path.exists() else None


class Delta(Growing):
    kind, what = "delta", "path: lake/t"

    @property
    def path(self) -> str:
        return str(self.folder / "lake/t")

    def append(self, *ids: int, **more: Any) -> None:
        write_deltalake(self.path, pa.table({"id": pa.array(ids, pa.int64())}), mode="append", **more)

    @property
    def newest(self) -> int:
        return DeltaTable(self.path).version()

    @property
    def data_files(self) -> list[str]:
        return DeltaTable(self.path).file_uris()

    def delete(self) -> None:
        DeltaTable(self.path).delete("id = 2")

    def compact(self) -> None:
        DeltaTable(self.path).optimize.compact()


class Iceberg(Growing):
    kind, what = "iceberg", "options: { catalog: lake, table: shop.t }"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.catalog = iceberg_tables.catalog(folder)

    @property
    def table(self) -> Any:
        return self.catalog.load_table("shop.t")

    def append(self, *ids: int, **more: Any) -> None:
        iceberg_tables.append(self.catalog, "shop.t", pa.table({"id": pa.array(ids, pa.int64())}), **more)

    @property
    def newest(self) -> int:
        return int(self.table.current_snapshot().snapshot_id)

    @property
    def data_files(self) -> list[str]:
        found: list[str] = self.table.inspect.data_files()["file_path"].to_pylist()
        return found

    def delete(self) -> None:
        self.table.delete("id = 2")

    def compact(self) -> None:
        """Other engines write the same rows in other files; the library has nothing for it."""
        from pyiceberg.io.pyarrow import _dataframe_to_data_files
        from pyiceberg.table.snapshots import Operation, Summary

        table = self.table
        with table.transaction() as changes:
            update = changes.update_snapshot()
            with update.overwrite() as replacing:
                real = replacing._summary

                def summary(properties: Any) -> Summary:
                    return Summary(Operation.REPLACE, **real(properties).additional_properties)

                replacing._summary = summary  # type: ignore[method-assign]
                files = [task.file for task in table.scan().plan_files()]
                for each in files:
                    replacing.delete_data_file(each)
                for each in _dataframe_to_data_files(changes.table_metadata, table.scan().to_arrow(), table.io):
                    replacing.append_data_file(each)


@pytest.fixture(params=[Delta, Iceberg])
def growing(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    without_spark.install(monkeypatch)
    return request.param(tmp_path)


@pytest.fixture
def delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Delta:
    without_spark.install(monkeypatch)
    return Delta(tmp_path)


@pytest.fixture
def iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iceberg:
    without_spark.install(monkeypatch)
    return Iceberg(tmp_path)


def test_rows_are_read_once(growing: Any) -> None:
    growing.append(1, 2)
    growing.append(3)
    assert growing.run() == [1, 2, 3]
    assert (growing.mark["by"], growing.mark["through"]) == ("version", growing.newest)
    assert growing.run() == []
    growing.append(4)
    growing.append(5, 1)
    assert growing.run() == [1, 4, 5]
    assert growing.run() == []
    assert growing.mark["through"] == growing.newest


def test_an_empty_table_grows(iceberg: Iceberg) -> None:
    iceberg.append()
    assert iceberg.run() == []
    iceberg.append(1)
    assert iceberg.run() == [1]


def test_rows_that_move_into_other_files_are_not_new(growing: Any) -> None:
    growing.append(1)
    growing.append(2)
    assert growing.run() == [1, 2]
    growing.compact()
    assert growing.run() == []
    # What was added before is read, wherever it is now.
    growing.append(3)
    growing.append(4)
    growing.compact()
    growing.append(5)
    assert growing.run() == [3, 4, 5]
    assert growing.run() == []


def test_rows_that_go_end_the_run(growing: Any) -> None:
    growing.append(1, 2)
    assert growing.run() == [1, 2]
    growing.append(3)
    growing.delete()
    taking = growing.newest
    growing.append(4)
    before = growing.mark
    growing.run(code=4)
    assert growing.error.code == "E913"
    assert f"{taking} of the table (" in growing.error.message
    assert "has taken rows away or changed some" in growing.error.message
    assert growing.mark == before
    # As the message says: a reset, and what follows.
    bound = growing.error.message.rpartition("--since rows=")[2].strip("`")
    plan = str(growing.folder / "pipeline.yaml")
    assert clinker.main(["bookmark", "reset", plan, "--source", "rows"]) == 0
    assert growing.run(since=(f"rows={bound}",)) == [4]
    growing.append(6)
    assert growing.run() == [6]


def test_updates_and_overwrites_end_the_run(delta: Delta) -> None:
    delta.append(1, 2)
    delta.run()
    DeltaTable(delta.path).update(updates={"id": "id + 1"}, predicate="id = 1")
    delta.run(code=4)
    assert "version 1 of the table (UPDATE)" in delta.error.message
    assert clinker.main(["bookmark", "reset", str(delta.folder / "pipeline.yaml")]) == 0
    assert delta.run() == [2, 2]
    write_deltalake(delta.path, pa.table({"id": [9]}), mode="overwrite")
    delta.run(code=4)
    assert "version 2 of the table (WRITE)" in delta.error.message


def test_columns_and_properties_that_change_are_no_rows(delta: Delta) -> None:
    delta.append(1)
    assert delta.run() == [1]
    DeltaTable(delta.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 day"})
    assert delta.run() == []
    write_deltalake(delta.path, pa.table({"id": [2], "w": ["x"]}), mode="append", schema_mode="merge")
    assert delta.run() == [2]
    assert delta.mark["through"] == 2


def test_bounds_of_the_command_line_choose_versions(growing: Any) -> None:
    numbers = []
    for at in range(1, 5):
        growing.append(at)
        numbers.append(growing.newest)
    assert growing.run(since=(str(numbers[1]),), until=(str(numbers[3]),)) == [2, 3]
    assert growing.mark is None
    assert growing.run(until=(str(numbers[2]),)) == [1, 2]
    assert growing.mark["through"] == numbers[1]
    # What lies between stays new.
    assert growing.run(since=(str(numbers[3]),)) == [4]
    assert growing.mark["through"] == numbers[1]
    assert growing.run(since=(str(numbers[1]),)) == [2, 3, 4]
    assert growing.mark["through"] == numbers[3]
    assert growing.run(since=(str(numbers[0]),), until=(str(numbers[1]),)) == [1]
    assert growing.run(since=("2000-01-01",)) == [1, 2, 3, 4]
    assert growing.run(until=("2000-01-01",)) == []
    assert growing.run(since=("2100-01-01",)) == []
    assert growing.mark["through"] == numbers[3]
    growing.run(code=4, since=("yesterday",))
    assert "is no date or time" in growing.error.message


def test_another_table_of_the_name_is_noticed(growing: Any, tmp_path: Path) -> None:
    growing.append(1)
    growing.run()
    if growing.kind == "delta":
        import shutil

        shutil.rmtree(growing.path)
    else:
        growing.catalog.drop_table("shop.t")
    growing.append(2)
    growing.run(code=4)
    assert growing.error.code == "E913"
    assert "is of the table with the id" in growing.error.message


def expire(iceberg: Iceberg, count: int) -> None:
    """Have a table forget its oldest snapshots, as other engines do, which leave in others what they follow."""
    gone = [each.snapshot_id for each in iceberg.table.snapshots()[:count]]
    for each in gone:
        iceberg.table.maintenance.expire_snapshots().by_id(each).commit()
    metadata = Path(iceberg.table.metadata_location.removeprefix("file://"))
    told = json.loads(metadata.read_text())
    told["snapshots"][0]["parent-snapshot-id"] = gone[-1]
    metadata.write_text(json.dumps(told))


def test_a_snapshot_that_was_read_may_expire(iceberg: Iceberg) -> None:
    """What came after it is known all the same."""
    iceberg.append(1)
    iceberg.append(2)
    assert iceberg.run() == [1, 2]
    iceberg.append(3)
    iceberg.compact()
    iceberg.append(4)
    expire(iceberg, 2)
    assert iceberg.run() == [3, 4]
    expire(iceberg, 2)
    assert iceberg.run() == []
    iceberg.append(5)
    assert iceberg.run() == [5]


def test_versions_that_are_gone_are_said(delta: Delta, iceberg: Iceberg) -> None:
    for each in (delta, iceberg):
        each.append(1)
        each.run()
        (each.folder / "out/rows").unlink()
        mark = (each.folder / BOOKMARK).read_text()
        each.append(2)
        each.append(3)
        if isinstance(each, Iceberg):
            expire(each, 2)
        else:
            DeltaTable(each.path).create_checkpoint()
            (each.folder / "lake/t/_delta_log/00000000000000000001.json").unlink()
        each.run(code=4)
        assert each.error.code == "E913"
        text = "neither it nor the one after it is among those" if isinstance(each, Iceberg) else "needs version 1"
        assert text in each.error.message
        assert (each.folder / BOOKMARK).read_text() == mark
        (each.folder / BOOKMARK).unlink()


def test_a_chosen_version_is_not_read_further(growing: Any) -> None:
    growing.append(1)
    chosen = ", options: { version: 0 }" if growing.kind == "delta" else "snapshot: 1"
    what = (
        "path: lake/t\n      options: { version: 0 }"
        if growing.kind == "delta"
        else ("options: { catalog: lake, table: shop.t, " + chosen + " }")
    )
    growing.run(code=4, what=what)
    assert "chooses one version of the table, and `incremental` reads the new ones" in growing.error.message


def test_deleted_positions_end_the_run(iceberg: Iceberg) -> None:
    """A writer may call it appending."""
    iceberg.append(1, 2)
    iceberg.run()
    (path,) = iceberg.table.inspect.data_files()["file_path"].to_pylist()
    iceberg_tables.delete_positions(iceberg.table, {path: [0]}, DataFileContent.POSITION_DELETES)
    iceberg.run(code=4)
    assert "has taken rows away" in iceberg.error.message


def test_plans_say_how_a_table_grows(growing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    growing.append(1)
    growing.run()
    plan = growing.folder / "pipeline.yaml"
    assert clinker.main(["explain", str(plan)]) == 0
    assert "what versions have added that no earlier run has read" in " ".join(capsys.readouterr().out.split())
    assert clinker.main(["bookmark", "show", str(plan)]) == 0
    assert f"rows: through {growing.newest} (of " in capsys.readouterr().out
    plan.write_text(plan.read_text().replace("incremental: true", "incremental: { column: id }"))
    assert clinker.main(["validate", str(plan)]) == 1
    seen = " ".join(capsys.readouterr().err.split())
    assert "grows by versions that are added" in seen
    assert "write `incremental: true`" in seen


def test_a_table_in_a_store_grows(delta: Delta, s3: Bucket) -> None:
    from spark_jobs.formats.delta import storage
    from spark_jobs.stores.settings import StoreSettings

    where, uri = f"path: {s3.uri('lake/t')}", s3.uri("lake/t")
    options = storage.options(uri, StoreSettings().resolved())
    for at in (1, 2):
        write_deltalake(uri, pa.table({"id": [at]}), mode="append", storage_options=options)
        assert delta.run(what=where, allow_absolute_paths=True) == [at]
    assert delta.mark["through"] == 1


def test_a_file_that_is_gone_has_remedies_of_incremental_sources(growing: Any) -> None:
    growing.append(1)
    growing.run()
    growing.append(2)
    for path in growing.data_files:
        Path(path.removeprefix("file://")).unlink()
    growing.run(code=4)
    assert growing.error.code == "E912"
    following = growing.newest + 1 if growing.kind == "delta" else "TIME"
    assert "`clinker bookmark reset PIPELINE --source rows`" in growing.error.message
    assert f"`clinker run --since rows={following}`" in growing.error.message
    assert "newer" not in growing.error.message


def test_an_object_that_is_gone_has_the_same_remedies(delta: Delta, s3: Bucket) -> None:
    from spark_jobs.formats.delta import storage
    from spark_jobs.stores.settings import StoreSettings

    where, uri = f"path: {s3.uri('lake/t')}", s3.uri("lake/t")
    options = storage.options(uri, StoreSettings().resolved())
    write_deltalake(uri, pa.table({"id": [1]}), mode="append", storage_options=options)
    s3.delete(next(key for key in s3.keys() if key.endswith(".parquet")))  # noqa: SIM118
    delta.run(what=where, allow_absolute_paths=True, code=4)
    assert delta.error.code == "E912"
    assert "`clinker run --since rows=1`" in delta.error.message
