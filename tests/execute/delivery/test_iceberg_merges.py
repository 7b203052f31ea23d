"""Records merged into Iceberg tables by keys, and tables partitioned by functions of columns; read by PyIceberg."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, parse_transform

from spark_jobs.cli import recover as command
from spark_jobs.execute.delivery.iceberg import commit as iceberg_commit
from spark_jobs.execute.delivery.tables import output
from spark_jobs.execute.delivery.tables.output import WriteResources
from spark_jobs.tuning import Tuning
from tests import iceberg_tables
from tests.execute import pipelines, without_spark
from tests.execute.delivery.merges import BESIDE, SCHEMA, check_a_death_is_completed, death_after_decision, done, row

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import Bucket

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dead.csv }} }}
nodes:
  - type: source
    name: rows
    config:
      {{ type: json, path: in.ndjson, options: {{ format: ndjson }}, on_unmapped: drop,
         schema: {{ {schema} }}{source} }}
  - type: output
    name: table
    input: rows
    config: {{ type: iceberg, options: {{ catalog: lake, table: shop.sales, {options} }}{more} }}
{nodes}
"""
MERGE = "mode: merge, key: id"


class Lake:
    """A folder with a pipeline that writes the table `shop.sales`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = iceberg_tables.catalog(folder)

    def write(self, *rows: dict[str, Any], chosen: dict[str, Any] | None = None, **said: str) -> Any:
        known = {"schema": SCHEMA, "options": MERGE, "nodes": "", "more": "", "source": ""}
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        pipelines.write(self.folder, {"pipeline.yaml": PIPELINE.format(**{**known, **said}), "in.ndjson": lines})
        return pipelines.run(self.folder, **{"force": True, **(chosen or {})}).result

    def make(self, *some: pa.Table, partition_by: str = "", **how: Any) -> None:
        """Another writer makes a table of some files."""
        for each in some:
            iceberg_tables.append(self.catalog, "shop.sales", each, partition_by, **how)

    @property
    def table(self) -> Any:
        return self.catalog.load_table("shop.sales")

    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in iceberg_tables.rows(self.catalog, "shop.sales")]

    def files(self) -> set[str]:
        return set(self.table.inspect.data_files()["file_path"].to_pylist())

    def left(self) -> list[str]:
        """What stands in the folder of the table's data and no snapshot has, and what runs have noted."""
        known = set()
        if self.catalog.namespace_exists("shop") and self.catalog.table_exists("shop.sales"):
            known = {path.removeprefix("file://") for path in self.table.inspect.all_files()["file_path"].to_pylist()}
        folder = self.folder / "warehouse"
        there = {str(path) for path in folder.rglob("*.parquet")}
        return sorted((there - known) | {str(path) for path in folder.rglob(".clinker*")})


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    without_spark.install(monkeypatch)
    return Lake(tmp_path)


def some(ids: list[int], v: list[str | None]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(v, pa.string())})


@pytest.fixture(params=["driver", "tasks"])
def chosen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The driver does all by itself, or tasks do, which hold next to nothing at once."""
    if request.param == "driver":
        return {}
    monkeypatch.setattr(output, "WriteResources", lambda folder, _, guard: WriteResources(folder, 64, guard))
    return {"tuning": Tuning(driver_output_bytes=0)}


def test_records_replace_the_rows_with_their_keys_and_else_are_new(lake: Lake, chosen: dict[str, Any]) -> None:
    done(lake.write(row(1, "a"), row(2, "b"), row(3, "c"), chosen=chosen))
    assert lake.rows() == [(1, "a"), (2, "b"), (3, "c")]
    done(lake.write(row(2, "B"), row(4, "D"), chosen=chosen))
    assert lake.rows() == [(1, "a"), (2, "B"), (3, "c"), (4, "D")]
    assert len(lake.table.snapshots()) == 2
    done(lake.write(row(2, "B"), row(4, "D"), chosen=chosen))
    assert lake.rows() == [(1, "a"), (2, "B"), (3, "c"), (4, "D")]
    done(lake.write(chosen=chosen))
    assert lake.rows() == [(1, "a"), (2, "B"), (3, "c"), (4, "D")]
    assert lake.left() == []
    # The manifests of files that were written again are right.
    assert [task.file.record_count for task in lake.table.scan("id = 1").plan_files()] == [2]
    assert not [*lake.table.scan("v > 'c'").plan_files()]


def test_a_flag_takes_rows_away_and_other_columns_stay(lake: Lake, chosen: dict[str, Any]) -> None:
    lake.make(some([1, 2, 3, 3], ["a", "b", "c", "d"]).append_column("w", pa.array([[1], None, [3], []])))
    said = {"schema": SCHEMA + ", gone: bool", "options": MERGE + ", delete_flag: gone"}
    rows = [row(1, "x", gone=True), row(2, "B"), row(3, gone=True), row(4, "n", gone=False), row(5, gone=True)]
    done(lake.write(*rows, chosen=chosen, **said))
    assert lake.rows() == [(2, "B", None), (4, "n", None)]
    done(lake.write(row(2, gone=True), row(4, gone=True), chosen=chosen, **said))
    assert lake.rows() == []
    assert not lake.files()
    done(lake.write(row(7, "z"), chosen=chosen))
    assert lake.rows() == [(7, "z", None)]


def test_only_files_with_rows_that_change_are_written_again(lake: Lake) -> None:
    lake.make(*(some(ids, ["x"] * 2) for ids in ([1, 2], [3, 9], [4, 5])))
    before = lake.files()
    done(lake.write(row(4, "y"), row(6, "z")))
    assert len(before & lake.files()) == 2
    assert lake.rows() == [(1, "x"), (2, "x"), (3, "x"), (4, "y"), (5, "x"), (6, "z"), (9, "x")]
    summary = lake.table.current_snapshot().summary
    assert (summary.operation.value, summary["deleted-data-files"], summary["added-data-files"]) == (
        "overwrite",
        "1",
        "2",
    )


def test_values_of_all_types_survive_in_rows_that_stay(lake: Lake, chosen: dict[str, Any]) -> None:
    """Rows are written again with their values, the numbers of their columns and those of members inside."""
    inner = iceberg.StructType(
        iceberg.NestedField(20, "a.b", iceberg.IntegerType(), required=False),
        iceberg.NestedField(21, "ü", iceberg.ListType(22, iceberg.StringType(), element_required=False), required=True),
    )
    kinds: dict[str, iceberg.IcebergType] = {
        "i": iceberg.IntegerType(), "f": iceberg.FloatType(), "d": iceberg.DoubleType(), "t": iceberg.TimeType(),
        "ts": iceberg.TimestampType(), "tz": iceberg.TimestamptzType(), "u": iceberg.UUIDType(),
        "x": iceberg.FixedType(3), "b": iceberg.BinaryType(), "n": iceberg.DecimalType(20, 3),
        "day": iceberg.DateType(), "s": inner, "l": iceberg.ListType(30, inner_of_list(), element_required=True),
        "m": iceberg.MapType(40, iceberg.StringType(), 41, iceberg.LongType(), value_required=False),
    }  # fmt: skip
    fields = [iceberg.NestedField(1, "id", iceberg.LongType(), required=False)]
    fields += [
        iceberg.NestedField(50 + at, name, kind, required=False) for at, (name, kind) in enumerate(kinds.items())
    ]
    lake.catalog.create_namespace("shop")
    table = lake.catalog.create_table("shop.sales", Schema(*fields))
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    full = {
        "i": -5, "f": 0.1, "d": float("nan"), "t": datetime.time(23, 59, 59, 999999), "ts": moment,
        "tz": moment.replace(tzinfo=datetime.UTC), "u": UUID(int=77).bytes, "x": b"\0\1\xff", "b": b"",
        "n": Decimal("-1.250"), "day": datetime.date(1, 1, 1), "s": {"a.b": None, "ü": ["x", None]},
        "l": [{"p": 1}, {"p": None}], "m": [("k", None)],
    }  # fmt: skip
    empty = dict.fromkeys(kinds) | {"d": -0.0}
    schema = table.schema().as_arrow()
    table.append(pa.Table.from_pylist([{"id": 1, **full}, {"id": 2, **empty}, {"id": 3, **full}], schema=schema))
    before = {each["id"]: each for each in table.scan().to_arrow().to_pylist()}
    done(lake.write(row(3), chosen=chosen, schema="id: int"))
    found = {each["id"]: each for each in lake.table.scan().to_arrow().to_pylist()}
    for at in (1, 2, 3):  # the record of the third has no other columns: they stay
        assert repr(found[at]) == repr(before[at])
    # Columns are found by their numbers, so that others may have their names.
    with lake.table.update_schema() as change:
        change.rename_column("i", "old_i")
        change.rename_column("s.ü", "letters")
    renamed = {each["id"]: each for each in lake.table.scan().to_arrow().to_pylist()}
    assert renamed[1]["old_i"] == -5
    assert renamed[1]["s"]["letters"] == ["x", None]


def inner_of_list() -> iceberg.StructType:
    return iceberg.StructType(iceberg.NestedField(31, "p", iceberg.LongType(), required=False))


def test_files_that_are_older_than_columns_are_written_again(lake: Lake, chosen: dict[str, Any]) -> None:
    lake.make(pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"], "w": pa.array([1.5, 2.5], pa.float32())}))
    with lake.table.update_schema() as change:
        change.rename_column("v", "was_v")
        change.update_column("id", iceberg.LongType())
        change.update_column("w", iceberg.DoubleType())
        change.move_first("w")
    with lake.table.update_schema() as change:
        change.add_column("v", iceberg.StringType())
    done(lake.write(row(2, "new"), row(1 << 40, "far"), chosen=chosen))
    found = iceberg_tables.rows(lake.catalog, "shop.sales")
    assert found == [
        {"w": 1.5, "id": 1, "was_v": "a", "v": None},
        {"w": 2.5, "id": 2, "was_v": "b", "v": "new"},
        {"w": None, "id": 1 << 40, "was_v": None, "v": "far"},
    ]


def test_deleted_rows_are_neither_matched_nor_written_again(lake: Lake, chosen: dict[str, Any]) -> None:
    lake.make(some([1, 2, 3, 4], ["a", "b", "c", "d"]))
    (path,) = lake.files()
    iceberg_tables.delete_positions(lake.table, {path: [0, 2]}, DataFileContent.POSITION_DELETES)
    done(lake.write(row(1, "new"), row(2, "B"), chosen=chosen))
    assert lake.rows() == [(1, "new"), (2, "B"), (4, "d")]


def test_rows_that_are_deleted_by_values_end_the_run(lake: Lake) -> None:
    lake.make(some([1, 2], ["a", "b"]))
    (path,) = lake.files()
    iceberg_tables.delete_positions(lake.table, {path: [0]}, DataFileContent.EQUALITY_DELETES)
    result = lake.write(row(1, "new"))
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "deleted by their values" in result.error.message
    assert lake.left() == []


def test_a_key_that_comes_twice_ends_the_run(
    lake: Lake, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.cut_by(monkeypatch, 100)
    lake.make(some([1], ["a"]))
    rows = [row(2, "b"), *(row(at, "x" * 40) for at in range(10, 40)), row(2, "c")]
    result = lake.write(*rows, nodes=BESIDE, chosen=chosen)
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "the records have the same key more than once: id = 2 (2 times)" in result.error.message
    lake.make(some([1], ["z"]))
    result = lake.write(row(1, "b"), chosen=chosen)
    assert "the table has the same key more than once: id = 1 (2 times)" in result.error.message
    assert lake.table.scan().to_arrow().sort_by("v").to_pylist() == [{"id": 1, "v": "a"}, {"id": 1, "v": "z"}]
    assert not (lake.folder / "out/lines.csv").exists()
    assert lake.left() == []


def test_what_cannot_be_merged_is_refused(lake: Lake) -> None:
    result = lake.write(row(1, "a"), {"v": "b"})
    assert result.exit_code == 2
    assert "a record without a key is merged with none" in (lake.folder / "out/dead.csv").read_text()
    assert lake.rows() == [(1, "a")]
    float_key = lake.write({"f": 1.5}, schema="f: float", options="mode: merge, key: f, evolve: true")
    assert "column 'f' of `key` is double, which tells no records apart" in float_key.error.message
    flag = lake.write(row(1), options=MERGE + ", delete_flag: v")
    assert "make it a Bool" in flag.error.message
    for options, text in (
        ("mode: merge", "`mode: merge` and `key` go together"),
        ("key: id", "`mode: merge` and `key` go together"),
        ("mode: merge, key: nid", "there is no column 'nid' to tell records apart"),
        ("mode: append, delete_flag: v", "`delete_flag` needs `mode: merge`"),
        (MERGE + ", delete_flag: v, partition_by: 'bucket(4, v)'", "'v' is written, and a flag is not"),
    ):
        with pytest.raises(Exception, match="E007") as raised:
            lake.write(row(1), options=options)
        assert text in str(raised.value)


@pytest.mark.parametrize("moment", ["before", "within"])
@pytest.mark.parametrize("is_empty", [False, True])
def test_another_writer_is_seen(moment: str, is_empty: bool, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the table lets its writers append beside one another, and where it has nothing to replace."""
    kept = {"write.merge.isolation-level": "snapshot", "write.delete.isolation-level": "snapshot"}
    lake.make(
        some([1, 2], ["a", "b"]).slice(0, 0 if is_empty else 2),
        properties={**kept, "write.update.isolation-level": "snapshot"},
    )
    before = len(lake.table.snapshots())
    if moment == "before":
        real = iceberg_commit.TableCommit.prepare

        def meanwhile(self: Any, home: Any) -> None:
            lake.make(some([9], ["z"]))
            real(self, home)

        monkeypatch.setattr(iceberg_commit.TableCommit, "prepare", meanwhile)
    else:
        commit, seen = SqlCatalog.commit_table, []

        def late(self: Any, table: Any, *what: Any) -> Any:
            if not seen:
                seen.append(1)
                lake.make(some([9], ["z"]))
            return commit(self, table, *what)

        monkeypatch.setattr(SqlCatalog, "commit_table", late)
    result = lake.write(row(9, "b"), nodes=BESIDE)
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "somebody else" in result.error.message
    assert lake.rows() == ([(9, "z")] if is_empty else [(1, "a"), (2, "b"), (9, "z")])
    assert len(lake.table.snapshots()) == before + 1
    assert lake.left() == []


@pytest.mark.parametrize("what", ["columns", "partitions", "made"])
def test_a_table_that_changes_in_the_moment_of_the_commit_is_seen_by_who_appends(
    what: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files have the partitions and columns that the table had: the library alone would name them in others."""
    if what != "made":
        lake.make(some([1], ["a"]))
    commit, seen = SqlCatalog.commit_table, []

    def late(self: Any, table: Any, *arguments: Any) -> Any:
        if not seen:
            seen.append(1)
            if what == "made":
                lake.make(some([9], ["z"]))
            elif what == "columns":
                with lake.table.update_schema() as schema:
                    schema.delete_column("v")
            else:
                with lake.table.update_spec() as spec:
                    spec.add_identity("v")
            if what != "made":
                lake.make(pa.table({"id": [9]}) if what == "columns" else some([9], ["z"]))
        return commit(self, table, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", late)
    monkeypatch.setattr("time.sleep", lambda _: None)
    result = lake.write(row(2, "b"), options="mode: append")
    assert (result.error.code, result.exit_code) == ("E912", 4)
    text = {"made": "has made the table", "columns": "changed the columns", "partitions": "changed the partitions"}[
        what
    ]
    assert text in result.error.message
    assert 2 not in lake.table.scan().to_arrow()["id"].to_pylist()
    assert lake.left() == []


#: The functions by which a run commits to a table.
COMMITS = (iceberg_commit.TableCommit, "is_completed"), (SqlCatalog, "commit_table")


def test_a_death_after_the_decision_is_completed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    check_a_death_is_completed(lake, lake.write, [], monkeypatch, *COMMITS)


def test_what_somebody_else_commits_after_a_death_is_not_merged_over(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(lake.write(row(1, "a"), nodes=BESIDE))

    with death_after_decision(monkeypatch, *COMMITS):
        lake.write(row(1, "A"), nodes=BESIDE)
    lake.make(some([5], ["theirs"]))
    assert command.main([str(lake.folder / "out")], lake.folder) == 0
    assert lake.rows() == [(1, "a"), (5, "theirs")]
    assert lake.left() == []


PARTED = "id: int, v: string, at: date_time, n: 'decimal(9, 2)'"
BY = "partition_by: ['day(at)', 'bucket(4, id)', 'truncate(1, v)', 'truncate(50, n)']"


def parted(number: int, v: str | None, at: str | None, n: str | None) -> dict[str, Any]:
    return {"id": number, "v": v, "at": at, "n": n}


ROWS = [
    parted(1, "éa", "2026-01-01T23:59:59.999999", "14.20"),
    parted(2, None, None, None),
    parted(3, "", "1969-12-31T23:59:59", "-0.01"),
    parted(4, "éb", "2026-01-01T00:00:00", "14.49"),
    parted(-5, "z", "2026-01-02T00:00:00", "-14.20"),
]


def test_a_table_with_functions_for_partitions_is_made(lake: Lake, chosen: dict[str, Any]) -> None:
    done(lake.write(*ROWS, schema=PARTED, options=BY, chosen=chosen))
    table = lake.table
    spec = [(str(field.transform), field.name) for field in table.spec().fields]
    assert spec == [
        ("day", "at_day"), ("bucket[4]", "id_bucket_4"), ("truncate[1]", "v_trunc_1"), ("truncate[50]", "n_trunc_50")
    ]  # fmt: skip
    bucket = BucketTransform(4).transform(iceberg.LongType())
    day, first = datetime.date, datetime.date(2026, 1, 1)
    expected = {
        (first, bucket(1), "é", Decimal("14.00")), (None, bucket(2), None, None),
        (day(1969, 12, 31), bucket(3), "", Decimal("-0.50")), (first, bucket(4), "é", Decimal("14.00")),
        (day(2026, 1, 2), bucket(-5), "z", Decimal("-14.50")),
    }  # fmt: skip
    assert {tuple(each["partition"].values()) for each in table.inspect.files().to_pylist()} == expected
    assert [each[0] for each in lake.rows()] == [-5, 1, 2, 3, 4]
    # Files are found by the partitions alone.
    for condition, ids in (
        ("id = 4", [4]), ("at < '1970-01-01T00:00:00+00:00'", [3]), ("n = 14.49", [4]), ("v = 'z'", [-5]),
        ("at is null", [2]),
    ):  # fmt: skip
        scan = table.scan(condition)
        assert scan.to_arrow()["id"].to_pylist() == ids, condition
        assert len([*scan.plan_files()]) < 5, condition
    assert any("at_day=2026-01-01/id_bucket_4=" in path for path in lake.files())


@pytest.mark.parametrize("mode", ["overwrite_partitions", "overwrite", "append", MERGE])
def test_records_go_into_partitions_by_functions(mode: str, lake: Lake, chosen: dict[str, Any]) -> None:
    done(lake.write(*ROWS, schema=PARTED, options=BY, chosen=chosen))
    options = mode if mode == MERGE else f"mode: {mode}"
    new = [parted(4, "éc", "2026-01-01T12:00:00", "14.00"), parted(2, "w", None, None)]
    done(lake.write(*new, schema=PARTED, options=options, chosen=chosen))
    found = sorted((each[0], each[1]) for each in lake.rows() if each[1] is not None)
    # Those of one day, bucket, letter and range go together.
    together = (
        {1}
        if BucketTransform(4).transform(iceberg.LongType())(1) == BucketTransform(4).transform(iceberg.LongType())(4)
        else set()
    )
    old = {(at, v) for at, v in ((-5, "z"), (1, "éa"), (3, ""), (4, "éb"))}
    expected = {
        "append": old,
        "overwrite": set(),
        "overwrite_partitions": {each for each in old if each[0] != 4 and each[0] not in together},
        MERGE: {each for each in old if each[0] != 4},
    }[mode]
    assert found == sorted(expected | {(4, "éc"), (2, "w")})
    assert sum(each[0] == 2 for each in lake.rows()) == (1 if mode in (MERGE, "overwrite") else 2)
    assert lake.left() == []


@pytest.mark.parametrize(
    ("transform", "value"),
    [("year", 56), ("month", 672), ("day", datetime.date(2026, 1, 1)), ("hour", 490919), ("void", None)],
)
def test_partitions_that_others_have_made_are_written(transform: str, value: Any, lake: Lake) -> None:
    lake.catalog.create_namespace("shop")
    schema = Schema(
        iceberg.NestedField(1, "id", iceberg.LongType(), required=False),
        iceberg.NestedField(2, "at", iceberg.TimestamptzType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, parse_transform(transform), "odd name"))
    lake.catalog.create_table("shop.sales", schema, partition_spec=spec)
    said = {"schema": "id: int, at: date_time", "options": "mode: append"}
    done(lake.write({"id": 1, "at": "2026-01-01T23:59:59"}, {"id": 2, "at": "2025-12-31T23:59:59.5"}, **said))
    made = {
        each["readable_metrics"]["id"]["lower_bound"]: each["partition"]["odd name"]
        for each in lake.table.inspect.files().to_pylist()
    }
    assert made[1] == value
    assert len(lake.files()) == (1 if transform == "void" else 2)
    assert len(lake.rows()) == 2
    (text,) = {path.split("/data/")[1].rpartition("/")[0] for path in lake.files() if made and "2025" not in path} - {
        ""
    } or {""}
    assert text == {
        "year": "at_year=2026", "month": "at_month=2026-01", "day": "at_day=2026-01-01",
        "hour": "at_hour=2026-01-01-23", "void": "",
    }[transform]  # fmt: skip


def test_a_table_whose_partitions_have_changed_is_merged_into(lake: Lake) -> None:
    lake.make(some([1, 2], ["a", "b"]))
    with lake.table.update_spec() as spec:
        spec.add_field("id", BucketTransform(2), "b")
    done(lake.write(row(3, "c"), row(4, "d"), options="mode: append"))
    with lake.table.update_spec() as spec:
        spec.remove_field("b")
        spec.add_field("v", IdentityTransform(), "v")
    done(lake.write(row(2, "x"), row(3, "y"), row(5, "z")))
    assert lake.rows() == [(1, "a"), (2, "x"), (3, "y"), (4, "d"), (5, "z")]
    assert lake.table.scan("v = 'a'").to_arrow()["id"].to_pylist() == [1]
    assert "files of the same partitions" in lake.write(row(1), options="mode: overwrite_partitions").error.message


def test_partitions_that_are_no_use_are_refused(lake: Lake) -> None:
    result = lake.write(row(1, "a"), options="partition_by: 'day(v)'")
    assert "the table cannot be partitioned by day(v): there is no day of string" in result.error.message
    assert lake.left() == []
    for options, text in (
        ("partition_by: 'week(v)'", "'week(v)' has no function of partitions"),
        ("partition_by: ['bucket(2, v)', 'bucket(2, v)']", "would be called 'v_bucket_2', as something else is"),
        ("partition_by: 'bucket(2, w)'", "there is no column 'w' to partition by"),
    ):
        with pytest.raises(Exception, match="E007") as raised:
            lake.write(row(1), options=options)
        assert text in str(raised.value)
    done(lake.write(row(1, "a"), options="partition_by: ['bucket(2, id)']"))
    done(lake.write(row(2, "a"), options="partition_by: ['bucket(2,id)']"))
    other = lake.write(row(2, "a"), options="partition_by: id").error.message
    assert "`partition_by` is id, and the table has bucket(2, id)" in other


def test_a_table_in_a_store_is_merged_into(lake: Lake, s3: Bucket) -> None:
    written = f'[catalogs.lake]\nuri = "sqlite:///catalog.db"\nwarehouse = "{s3.uri("warehouse")}"\n'
    (lake.folder / "clinker.toml").write_text(written)
    lake.catalog = iceberg_tables.in_store(lake.folder, s3)
    for rows in ([row(1, "a"), row(2, "b")], [row(2, "B"), row(3, "c")]):
        done(lake.write(*rows, options=MERGE + ", partition_by: 'bucket(2, id)'"))
    assert lake.rows() == [(1, "a"), (2, "B"), (3, "c")]
    assert not [key for key in s3.keys() if ".clinker" in key]  # noqa: SIM118


def test_tasks_write_again_what_needs_it(lake: Lake, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines.cut_by(monkeypatch, 300)
    chosen = {"tuning": replace(chosen.get("tuning", Tuning()), kept_bytes=200)}
    numbers = range(300)
    for own in (numbers[:100], numbers[100:]):
        lake.make(
            pa.table({"n": [f"n{at}" for at in own], "id": pa.array(own, pa.int32()), "v": ["old"] * len(own)}),
            partition_by="",
        )
    done(lake.write(*(row(at, "new") for at in range(299, -10, -3)), chosen=chosen))
    found = {each["id"]: each for each in iceberg_tables.rows(lake.catalog, "shop.sales")}
    assert len(found) == 303
    for at in numbers:
        assert found[at] == {"n": f"n{at}", "id": at, "v": "new" if (299 - at) % 3 == 0 else "old"}
    assert [found[at] for at in (-1, -4, -7)] == [{"n": None, "id": at, "v": "new"} for at in (-1, -4, -7)]
