"""Iceberg tables as outputs of whole pipelines, read by the table's own library."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StructType

from spark_jobs.cli import clinker
from spark_jobs.cli import recover as command
from spark_jobs.execute.delivery import joint
from spark_jobs.execute.delivery.iceberg import commit as iceberg_commit
from spark_jobs.execute.delivery.local import files
from spark_jobs.execute.delivery.participant import Address, StorageAccess
from spark_jobs.execute.verdict import RunFailed
from tests import iceberg_tables
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from tests.object_store import Bucket

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dead.csv }} }}
nodes:
  - type: source
    name: rows
    config:
      type: json
      path: in.ndjson
      options: {{ format: ndjson }}
      on_unmapped: drop
      schema: {{ id: int, day: date, v: string }}
      {source}
  - type: output
    name: table
    input: rows
    config: {{ type: iceberg, options: {{ catalog: lake, table: shop.sales, {options} }}{more} }}
{nodes}
"""
BESIDE = (
    "  - { type: output, name: lines, input: rows, config: { type: csv, path: out/lines.csv, if_exists: overwrite } }\n"
)


class Lake:
    """A folder with a pipeline that writes the table `shop.sales`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "warehouse"
        self.catalog = iceberg_tables.catalog(folder)

    def define(
        self, *rows: dict[str, Any], options: str = "", nodes: str = "", source: str = "", more: str = ""
    ) -> None:
        text = PIPELINE.format(options=options, nodes=nodes, source=source, more=more)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        pipelines.write(self.folder, {"pipeline.yaml": text, "in.ndjson": lines})

    def write(
        self, *rows: dict[str, Any], options: str = "", nodes: str = "", source: str = "", more: str = "", **chosen: Any
    ) -> Any:
        self.define(*rows, options=options, nodes=nodes, source=source, more=more)
        return pipelines.run(self.folder, **{"force": True, **chosen}).result

    @property
    def table(self) -> Any:
        return self.catalog.load_table("shop.sales")

    def rows(self) -> list[dict[str, Any]]:
        return iceberg_tables.rows(self.catalog, "shop.sales")

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]

    def left(self) -> list[str]:
        """What stands in the folder of the table's data and no snapshot has, and what runs have noted."""
        known = set()
        if self.catalog.namespace_exists("shop") and self.catalog.table_exists("shop.sales"):
            known = {path.removeprefix("file://") for path in self.table.inspect.all_files()["file_path"].to_pylist()}
        there = {str(path) for path in self.path.rglob("*.parquet")}
        return sorted((there - known) | {str(path) for path in self.path.rglob(".clinker*")})

    def meanwhile(self, *numbers: int) -> None:
        """Another writer."""
        self.table.append(pa.table({"id": pa.array(numbers, pa.int64())}))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    without_spark.install(monkeypatch)
    return Lake(tmp_path)


def row(number: int, day: str | None = None, v: str | None = None) -> dict[str, Any]:
    return {"id": number, "day": day, "v": v}


def done(result: Any) -> Any:
    assert result.exit_code == 0, result.error
    return result


def test_a_table_is_made_and_appended_to(lake: Lake) -> None:
    first = done(lake.write(row(1, "2026-01-01", "x"), row(2)))
    done(lake.write(row(3)))
    assert [(each["id"], str(each["day"]), each["v"]) for each in lake.rows()] == [
        (1, "2026-01-01", "x"), (2, "None", None), (3, "None", None)
    ]  # fmt: skip
    assert [str(field.field_type) for field in lake.table.schema().fields] == ["long", "date", "string"]
    assert lake.left() == []
    assert lake.table.snapshots()[0].summary.additional_properties["clinker.execution_id"] == first.execution_id
    # Manifests have what readers need to pass files over.
    assert [task.file.record_count for task in lake.table.scan("id > 2").plan_files()] == [1]
    assert len([*lake.table.scan("day = '2026-01-01' and v = 'x'").plan_files()]) == 1
    assert not [*lake.table.scan("day > '2026-01-01'").plan_files()]


def test_values_of_all_types_come_back(lake: Lake) -> None:
    pipelines.write(lake.folder, {"pipeline.yaml": """
        pipeline: { name: p }
        nodes:
          - type: source
            name: rows
            config:
              type: json
              path: in.ndjson
              options: { format: ndjson }
              schema:
                - { name: id, type: int }
                - { name: f, type: float }
                - { name: b, type: bool }
                - { name: m, type: date_time }
                - { name: d, type: "decimal(30, 4)" }
          - type: output
            name: table
            input: rows
            config: { type: iceberg, options: { catalog: lake, table: shop.sales } }
        """, "in.ndjson": json.dumps({
            "id": 1, "f": 0.1, "b": True, "m": "2026-01-02T03:04:05.678901", "d": "12345678901234567890.1234",
        }) + "\n"})  # fmt: skip
    done(pipelines.run(lake.folder, force=True).result)
    (found,) = lake.rows()
    assert found["f"] == 0.1
    assert found["b"] is True
    assert found["m"] == datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC)
    assert found["d"] == Decimal("12345678901234567890.1234")
    assert len([*lake.table.scan("f > 0.05 and b = true").plan_files()]) == 1
    assert not [*lake.table.scan("f > 0.5").plan_files()]


def test_records_go_to_their_partitions(lake: Lake) -> None:
    done(lake.write(row(1, "2026-01-01", "x"), row(2), row(3, "2026-01-02", ""), options="partition_by: [day, v]"))
    assert {(each["partition"]["day"], each["partition"]["v"]) for each in lake.table.inspect.files().to_pylist()} == {
        (datetime.date(2026, 1, 1), "x"), (None, None), (datetime.date(2026, 1, 2), ""),
    }  # fmt: skip
    assert [each["v"] for each in lake.rows()] == ["x", None, ""]
    # What is read is what was written, by the files of partitions alone.
    assert [each["id"] for each in lake.table.scan("day = '2026-01-02'").to_arrow().to_pylist()] == [3]
    done(lake.write(row(4, "2026-01-01", "x"), options="mode: overwrite_partitions"))
    assert lake.ids() == [2, 3, 4]
    assert (
        "`partition_by` is id, and the table has day, v" in lake.write(row(5), options="partition_by: id").error.message
    )
    done(lake.write(row(6, "2026-01-01"), options="mode: overwrite"))
    assert lake.ids() == [6]
    assert lake.left() == []


@pytest.mark.parametrize("value", ["é" * 60, "a" * 300, "x" * 193 + "é" * 9, "a/" * 70])
def test_values_of_partitions_may_be_longer_than_the_names_of_folders(value: str, lake: Lake) -> None:
    done(lake.write(row(1, v=value), row(2, v=value + "b"), options="partition_by: v"))
    assert [(each["id"], each["v"]) for each in lake.rows()] == [(1, value), (2, value + "b")]
    assert len([*lake.table.scan(EqualTo("v", value)).plan_files()]) == 1
    assert max(len(path.parent.name) for path in lake.path.rglob("*.parquet")) <= 200


def test_partitions_of_floats_are_appended_to_and_not_replaced(lake: Lake) -> None:
    """The library reads them in manifests with fewer digits: the old records would stay."""

    def write(mode: str) -> Any:
        options = f"partition_by: p, mode: {mode}"
        text = PIPELINE.format(options=options, nodes="", source="", more="").replace("day: date", "p: float")
        lines = '{"id": 1, "p": 0.1, "v": "x"}\n{"id": 2, "p": -99999.99, "v": "x"}\n'
        pipelines.write(lake.folder, {"pipeline.yaml": text, "in.ndjson": lines})
        return pipelines.run(lake.folder, force=True).result

    for mode in ("overwrite", "overwrite_partitions"):
        assert f"`mode: {mode}` cannot find partitions of the floats in 'p'" in write(mode).error.message
    done(write("append"))
    for mode in ("overwrite", "overwrite_partitions"):
        assert f"`mode: {mode}` cannot find partitions of the floats in 'p'" in write(mode).error.message
    assert [(each["id"], each["p"]) for each in lake.rows()] == [(1, 0.1), (2, -99999.99)]
    assert lake.left() == []


def test_columns_that_change_meanwhile_are_seen_before_anything_is_published(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(lake.write(row(1)))
    real = iceberg_commit.TableCommit.prepare
    seen: list[str] = []

    def prepared(self: Any, home: Any) -> None:
        with lake.table.update_schema() as change:
            change.delete_column("v")
        try:
            real(self, home)
        except RunFailed as error:
            seen.append(str(error))
            raise

    monkeypatch.setattr(iceberg_commit.TableCommit, "prepare", prepared)
    result = lake.write(row(2), nodes=BESIDE)
    assert "somebody else has changed the columns of the table" in result.error.message
    assert len(seen) == 1
    assert not (lake.folder / "out/lines.csv").exists()
    assert lake.ids() == [1]
    assert lake.left() == []


def test_an_overwritten_table_has_its_old_snapshots(lake: Lake) -> None:
    done(lake.write(row(1), options="mode: overwrite"))
    before = lake.table.current_snapshot().snapshot_id
    done(lake.write(row(2), options="mode: overwrite"))
    assert lake.ids() == [2]
    assert lake.table.scan(snapshot_id=before).to_arrow()["id"].to_pylist() == [1]
    done(lake.write(options="mode: overwrite"))
    assert lake.ids() == []
    done(lake.write(row(3)))
    assert lake.ids() == [3]


def test_records_are_sorted_before_they_are_written(lake: Lake) -> None:
    done(lake.write(row(2), row(1), row(3), more=", sort_order: [id]"))
    assert lake.table.scan().to_arrow()["id"].to_pylist() == [1, 2, 3]


def test_columns_have_to_fit_the_table(lake: Lake) -> None:
    iceberg_tables.append(
        lake.catalog, "shop.sales", pa.table({"id": pa.array([1], pa.int32()), "note": ["n"], "v": ["x"]})
    )
    assert "the table has no column 'day'" in lake.write(row(2)).error.message
    done(lake.write(row(2, "2026-01-01", "x"), options="evolve: true"))
    assert [(each["id"], each["note"], each["v"]) for each in lake.rows()] == [(1, "n", "x"), (2, None, "x")]
    result = lake.write(row(1 << 40))
    assert "has a value that is no int32 of the table" in result.error.message
    with lake.table.update_schema(allow_incompatible_changes=True) as change:
        change.make_column_optional("v")
        change.update_column("id", required=True)
    assert "must not be null" in lake.write({"id": None, "day": None, "v": "x"}).error.message
    assert lake.ids() == [1, 2]
    assert lake.left() == []


def test_a_table_with_other_partitions_is_refused(lake: Lake) -> None:
    """A part of a structure is no column of records."""
    lake.catalog.create_namespace("shop")
    parts = StructType(NestedField(2, "p", LongType(), required=False))
    columns = Schema(NestedField(1, "id", LongType(), required=False), NestedField(3, "s", parts, required=False))
    lake.catalog.create_table(
        "shop.sales", columns, partition_spec=PartitionSpec(PartitionField(2, 1000, BucketTransform(3), "by_part"))
    )
    error = lake.write(row(2)).error
    assert error.code == "E912"
    assert "the table is partitioned by bucket[3](s.p)" in error.message


def test_dead_letters_and_a_table_become_visible_together(lake: Lake) -> None:
    result = lake.write(row(1), {"id": "x", "day": None, "v": None}, nodes=BESIDE)
    assert result.exit_code == 2
    assert lake.ids() == [1]
    assert (lake.folder / "out/lines.csv").read_text().splitlines()[1:] == ["1,,"]
    assert len((lake.folder / "out/dead.csv").read_text().splitlines()) == 2
    assert lake.left() == []


def test_a_preview_shows_records_and_makes_no_table(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.define(row(7, v="shown"))
    assert clinker.main(["preview", str(lake.folder / "pipeline.yaml")]) == 0
    assert "shown" in capsys.readouterr().out
    assert not lake.catalog.namespace_exists("shop")


def test_another_writer_is_seen_where_records_are_replaced(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    done(lake.write(row(1)))
    real = iceberg_commit.TableCommit.prepare

    def prepared(self: Any, home: Any) -> None:
        lake.meanwhile(9)
        real(self, home)

    monkeypatch.setattr(iceberg_commit.TableCommit, "prepare", prepared)
    result = lake.write(row(2), options="mode: overwrite", nodes=BESIDE)
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "somebody else has written snapshot" in result.error.message
    assert lake.ids() == [1, 9]
    assert not (lake.folder / "out/lines.csv").exists()
    assert lake.left() == []
    done(lake.write(row(2)))  # appending does not mind
    assert lake.ids() == [1, 2, 9, 9]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_another_writer_in_the_moment_of_the_commit_is_seen(
    mode: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(lake.write(row(1)))
    real, seen = SqlCatalog.commit_table, []

    def late(self: Any, table: Any, *what: Any) -> Any:
        if not seen:
            seen.append(1)
            lake.meanwhile(9)
        return real(self, table, *what)

    monkeypatch.setattr(SqlCatalog, "commit_table", late)
    result = lake.write(row(2), options=f"mode: {mode}")
    if mode == "append":
        done(result)
        assert lake.ids() == [1, 2, 9]
    else:
        assert "somebody else has written snapshot" in result.error.message
        assert lake.ids() == [1, 9]
    assert lake.left() == []


def test_a_table_that_somebody_else_makes_is_not_taken_over(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    real = iceberg_commit.TableCommit.prepare

    def prepared(self: Any, home: Any) -> None:
        iceberg_tables.append(lake.catalog, "shop.sales", pa.table({"id": [9]}))
        real(self, home)

    monkeypatch.setattr(iceberg_commit.TableCommit, "prepare", prepared)
    assert "somebody else has made the table" in lake.write(row(2)).error.message
    assert lake.ids() == [9]
    assert lake.left() == []


class Died(BaseException):
    """The run is dead."""


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("nodes", ["", BESIDE])
@pytest.mark.parametrize("step", ["prepare", "decide", "complete", "after"])
def test_a_death_around_the_commit_leaves_all_or_nothing(
    step: str, nodes: str, is_new: bool, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_new:
        done(lake.write(row(1)))

    def die(*_: Any) -> None:
        raise Died

    def after(self: Any) -> None:
        real(self)
        raise Died

    real = iceberg_commit.TableCommit.complete
    with monkeypatch.context() as patch:
        # What a dead process cannot do any more.
        patch.setattr(iceberg_commit.TableCommit, "give_up", lambda self: None)
        patch.setattr(joint, "_take_back", lambda *_: False)
        patch.setattr("spark_jobs.execute.delivery.destinations._Drafts.close", lambda *_, **__: None)
        if step == "prepare":
            patch.setattr(iceberg_commit.TableCommit, "prepare", die)
        elif step == "decide":
            patch.setattr(files.LocalDraft, "decide", die)
        else:
            patch.setattr(iceberg_commit.TableCommit, "complete", die if step == "complete" else after)
        with contextlib.suppress(Died):
            lake.write(row(2), nodes=nodes)
    done(lake.write(row(3), nodes=nodes))
    old = [] if is_new else [1]
    assert lake.ids() in ([*old, 3], [*old, 2, 3])
    if step == "after":
        assert lake.ids() == [*old, 2, 3]


def test_a_commit_that_is_there_has_happened_whatever_is_said_of_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(lake.write(row(1)))
    real = SqlCatalog.commit_table

    def lost(*arguments: Any) -> None:
        real(*arguments)
        raise ConnectionError("the answer is lost")

    monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    done(lake.write(row(2), options="mode: overwrite", nodes=BESIDE))
    done(lake.write(row(3)))
    assert lake.ids() == [2, 3]
    assert lake.left() == []


def test_a_commit_that_fails_is_an_error_and_leaves_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    done(lake.write(row(1)))

    def refused(*_: Any) -> None:
        raise CommitFailedException("no")

    monkeypatch.setattr(SqlCatalog, "commit_table", refused)
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert "somebody else was faster" in lake.write(row(2)).error.message
    assert lake.ids() == [1]
    assert lake.left() == []


def test_a_note_that_names_another_table_is_not_followed(lake: Lake, tmp_path: Path) -> None:
    """Whoever can write into the folder of one table cannot have another one written."""
    done(lake.write(row(1), nodes=BESIDE))
    home = Address("files", str(tmp_path / "out"), "r")
    table = lake.table
    place = iceberg_commit.Place(
        table.location().removeprefix("file://"),
        "lake:shop.sales",
        StorageAccess().stores.resolved(),
        "lake",
        "shop.sales",
        StorageAccess(catalogs={"lake": dict(lake.catalog.properties)}),
    )
    commit = iceberg_commit.Commit(
        "r", "t", iceberg_commit.Mode.APPEND, "lake", "shop.other", table.location(), "", None, 0,
        table.schema().model_dump_json(), (), 0, (), (),
    )  # fmt: skip
    place.write(".clinker-r.json", commit.as_note(home))
    left = iceberg_commit.dead_participant(iceberg_commit.TableCommit(place, commit).address, home, place.access)
    left.complete()
    assert not lake.catalog.table_exists("shop.other")
    done(lake.write(row(2)))
    assert lake.ids() == [1, 2]


#: What changes something that another process can see.
CALLS = ("rename", "replace", "link", "unlink", "rmdir", "mkdir", "fsync")
#: With 1 each step is a place to die at.
STEP = int(os.environ.get("CLINKER_TEST_STEP", "37"))


def die_at(folder: str, at: int) -> None:
    """Run the pipeline of a folder in this process, and die before a change of files or of the table."""
    numbers = itertools.count()

    def counted(original: Any) -> Any:
        def call(*arguments: Any, **wanted: Any) -> Any:
            if next(numbers) == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **wanted)

        return call

    with pytest.MonkeyPatch.context() as patch:
        without_spark.install(patch)
        for name in CALLS:
            patch.setattr(os, name, counted(getattr(os, name)))
        for name in ("commit_table", "load_table"):
            patch.setattr(SqlCatalog, name, counted(getattr(SqlCatalog, name)))
        patch.setattr(iceberg_commit.Place, "remove", counted(iceberg_commit.Place.remove))
        assert pipelines.run(Path(folder), force=True).result.exit_code == 0


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_killed_run_leaves_the_old_or_the_new(mode: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    seen = set()
    for at in itertools.count(0, STEP):
        shutil.rmtree(lake.path, ignore_errors=True)
        shutil.rmtree(lake.folder / "out", ignore_errors=True)
        (lake.folder / "catalog.db").unlink(missing_ok=True)
        lake.catalog = iceberg_tables.catalog(lake.folder)
        done(lake.write(row(1, v="x"), nodes=BESIDE))
        lake.define(row(2, v="x"), options=f"mode: {mode}", nodes=BESIDE)
        call = f"from {__name__} import die_at; die_at({str(lake.folder)!r}, {at})"
        ended = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        assert command.main([str(lake.folder / "out")], lake.folder) == 0
        state = lake.ids(), (lake.folder / "out/lines.csv").read_text().splitlines()[1:]
        new = [1, 2] if mode == "append" else [2]
        assert state in (([1], ["1,,x"]), (new, ["2,,x"])), at
        seen.add(tuple(state[0]))
        if not ended.returncode:
            break
        done(lake.write(row(3), nodes=BESIDE))
        assert lake.ids() == [*state[0], 3]
        assert not [name for name in lake.left() if ".clinker" in name], at
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (", path: lake/x", "`path` is about files, and an iceberg output has none"),
        (", if_exists: overwrite", "`if_exists` is about files"),
        (", split: { max_records: 5 }", "`split` is about files"),
    ],
)
def test_keys_of_files_are_refused(more: str, text: str, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.define(more=more)
    assert clinker.main(["validate", str(lake.folder / "pipeline.yaml")]) == 1
    assert text in " ".join(capsys.readouterr().err.split())


def test_a_table_in_a_store_is_written(lake: Lake, s3: Bucket) -> None:
    written = f'[catalogs.lake]\nuri = "sqlite:///catalog.db"\nwarehouse = "{s3.uri("warehouse")}"\n'
    (lake.folder / "clinker.toml").write_text(written)
    lake.catalog = iceberg_tables.in_store(lake.folder, s3)
    done(lake.write(row(1, "2026-01-01"), row(2), options="partition_by: day"))
    done(lake.write(row(3)))
    done(lake.write(row(4, "2026-01-01"), options="mode: overwrite_partitions", nodes=BESIDE))
    assert lake.ids() == [2, 3, 4]
    assert not [key for key in s3.keys() if ".clinker" in key]  # noqa: SIM118
