"""Iceberg tables as sources of whole pipelines."""

from __future__ import annotations

import datetime
import json
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampNanoType

from spark_jobs import plan
from spark_jobs.cli import clinker
from spark_jobs.formats.iceberg import snapshots
from spark_jobs.formats.parquet import read as parquet_read
from spark_jobs.plan.explain import explain
from tests import iceberg_tables
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from tests.object_store import Bucket

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dlq.csv }} }}
nodes:
  - type: source
    name: rows
    config:
      type: iceberg
      options: {{ catalog: lake, table: shop.sales, {options} }}
      schema: {{ {schema} }}
      on_unmapped: {unmapped}
  - type: transform
    name: t
    input: rows
    config: {{ cxl: '{cxl}' }}
  - type: output
    name: o
    input: t
    config: {{ type: json, path: out/rows, options: {{ format: ndjson }}, preserve_nulls: true }}
"""


class Lake:
    """A folder with a pipeline that reads the table `shop.sales`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = iceberg_tables.catalog(folder)

    def append(self, rows: pa.Table, **how: Any) -> Table:
        return iceberg_tables.append(self.catalog, "shop.sales", rows, **how)

    @property
    def table(self) -> Table:
        return self.catalog.load_table("shop.sales")

    def write(self, schema: str, options: str = "", cxl: str = "emit id = id", unmapped: str = "auto_widen") -> None:
        text = PIPELINE.format(schema=schema, options=options, cxl=cxl, unmapped=unmapped)
        pipelines.write(self.folder, {"pipeline.yaml": text})

    def read(
        self, schema: str, options: str = "", cxl: str = "emit id = id", unmapped: str = "auto_widen", **chosen: Any
    ) -> Any:
        self.write(schema, options, cxl, unmapped)
        return pipelines.run(self.folder, force=True, **chosen)

    def records(self, schema: str, options: str = "", **chosen: Any) -> list[dict[str, Any]]:
        outcome = self.read(schema, options, **chosen)
        assert outcome.result.exit_code == 0, outcome.result.error
        return [json.loads(line) for line in (self.folder / "out/rows").read_text().splitlines()]

    def refusal(self, schema: str = "id: int", options: str = "", **chosen: Any) -> Any:
        outcome = self.read(schema, options, **chosen)
        assert outcome.result.error is not None
        assert outcome.result.exit_code == (1 if outcome.result.error.code == "E-SEC-001" else 4)
        return outcome.result.error


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    without_spark.install(monkeypatch)
    return Lake(tmp_path)


def ids(*numbers: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), **more})


def days(*numbers: int) -> pa.Array:
    return pa.array([datetime.date(2026, 1, each) if each else None for each in numbers])


def test_columns_have_the_types_of_the_table(lake: Lake) -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    lake.append(
        pa.table(
            {
                "id": pa.array([1, 2], pa.int32()),
                "f": pa.array([1.5, None], pa.float32()),
                "b": [True, None],
                "t": ["ä", None],
                "d": [datetime.date(2026, 1, 2), None],
                "m": pa.array([moment.replace(tzinfo=datetime.UTC), None], pa.timestamp("us", "UTC")),
                "w": pa.array([moment, None], pa.timestamp("us")),
                "n": pa.array([Decimal("12345678901234567890.12"), None], pa.decimal128(30, 2)),
                "s": [{"x": 1, "y": "z"}, None],
                "l": [[1, 2], None],
            }
        )
    )
    assert lake.records("id: int") == [
        {
            "id": 1, "f": 1.5, "b": True, "t": "ä", "d": "2026-01-02", "m": "2026-01-02T03:04:05.678901",
            "w": "2026-01-02T03:04:05.678901", "n": "12345678901234567890.12", "s.x": 1, "s.y": "z", "l": [1, 2],
        },
        {"id": 2, **dict.fromkeys(["f", "b", "t", "d", "m", "w", "n", "s.x", "s.y", "l"])},
    ]  # fmt: skip
    assert lake.records("id: int, s: map")[0]["s"] == {"x": 1, "y": "z"}


def test_partitions_are_columns_and_may_be_null(lake: Lake) -> None:
    lake.append(ids(1, 2, 3, day=days(1, 0, 1)), partition_by="day")
    found = lake.records("id: int, day: date", cxl="emit file = $source.file")
    files = {record.pop("file") for record in found}
    assert sorted(found, key=lambda record: record["id"]) == [
        {"id": 1, "day": "2026-01-01"}, {"id": 2, "day": None}, {"id": 3, "day": "2026-01-01"},
    ]  # fmt: skip
    assert all(file.startswith("shop.sales/data/day=") for file in files)
    assert sorted(str(each["d"]) for each in lake.records("day: date", cxl="emit d = day", unmapped="drop")) == [
        "2026-01-01", "2026-01-01", "None",
    ]  # fmt: skip


def test_partitions_of_doubles_have_all_their_digits(lake: Lake) -> None:
    """The library reads them in manifests with fewer, and the files have them."""
    lake.append(ids(1, 2, 3, p=[0.1, -99999.99, 1e300]), partition_by="p")
    there = [{"id": 1, "p": 0.1}, {"id": 2, "p": -99999.99}, {"id": 3, "p": 1e300}]
    assert sorted(lake.records("id: int, p: float"), key=lambda row: row["id"]) == there
    assert lake.records("id: int, p: float", cxl="filter p == 0.1") == there[:1]
    assert lake.records("id: int, p: float", cxl="filter p > 5.0") == there[2:]


def test_a_file_without_its_partition_of_doubles_is_refused(lake: Lake) -> None:
    table = lake.append(ids(1, p=[0.5]), partition_by="p")
    path = lake.folder / "warehouse/shop/sales/data/p=0.1/bare.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(ids(2), path)
    bare = DataFile.from_args(
        content=DataFileContent.DATA, file_path=f"file://{path}", file_format=FileFormat.PARQUET, partition=Record(0.1),
        record_count=1, file_size_in_bytes=path.stat().st_size, value_counts={1: 1}, null_value_counts={1: 0},
    )  # fmt: skip
    bare.spec_id = table.spec().spec_id
    with table.transaction() as changes, changes.update_snapshot().fast_append() as adding:
        adding.append_data_file(bare)
    assert "a file lacks column 'p'" in lake.refusal("id: int, p: float").message
    assert len(lake.records("id: int", unmapped="drop")) == 2


def test_columns_are_found_by_their_numbers(lake: Lake) -> None:
    """A column that was dropped and made again is another one, and one that was renamed is the same."""
    table = lake.append(ids(1, n=pa.array([7], pa.int32()), s=[{"a": 1, "b": 2}], v=["old"]))
    with table.update_schema() as change:
        change.rename_column("n", "number")
        change.delete_column("v")
        change.rename_column(("s", "a"), "c")
    with table.update_schema() as change:
        change.add_column("v", StringType())
        change.add_column("f", DoubleType())
        change.update_column("number", LongType())
    table = lake.table
    table.append(pa.Table.from_pylist(
        [{"id": 2, "number": 1 << 40, "s": {"c": 3, "b": 4}, "v": "new", "f": 0.5}], schema=table.schema().as_arrow()
    ))  # fmt: skip
    schema = "id: int, number: int, v: string, f: float, s.c: int, s.b: int"
    old = {"id": 1, "number": 7, "v": None, "f": None, "s.c": 1, "s.b": 2}
    new = {"id": 2, "number": 1 << 40, "v": "new", "f": 0.5, "s.c": 3, "s.b": 4}
    assert lake.records(schema) == [old, new]
    assert lake.records(schema, cxl="filter number == 7") == [old]
    assert lake.records(schema, cxl='filter v == "new"') == [new]
    assert lake.records(schema, cxl="filter number > 8") == [new]
    # An older snapshot has its own columns.
    first = table.history()[0].snapshot_id
    assert lake.records("id: int, n: int, v: string", f"snapshot: {first}")[0]["v"] == "old"


def test_files_of_other_programs_have_the_names_that_the_table_keeps_for_them(lake: Lake) -> None:
    """They have no numbers for their columns: `add_files` notes the names of that moment."""
    table = lake.append(ids(1, v=["own"], s=[{"a": 1}]))
    path = lake.folder / "warehouse/shop/sales/data/of_others.parquet"
    parquet.write_table(ids(2, v=["theirs"], s=[{"a": 2}]), path)
    table.add_files([f"file://{path}"])
    with table.update_schema() as change:
        change.rename_column("v", "w")
        change.rename_column(("s", "a"), "b")
    schema = "id: int, w: string, s.b: int"
    own = {"id": 1, "w": "own", "s.b": 1}
    theirs = {"id": 2, "w": "theirs", "s.b": 2}
    assert lake.records(schema) == [own, theirs]
    assert lake.records(schema, cxl='filter w == "theirs"') == [theirs]
    assert lake.records(schema, cxl="filter s.b == 2") == [theirs]


@pytest.mark.parametrize(
    ("kind", "default", "declared", "value"),
    [
        ("long", 7, "int", 7),
        ("string", "ä", "string", "ä"),
        ("date", "2026-01-02", "date", "2026-01-02"),
        ("timestamptz", "2026-01-02T03:04:05.678901+00:00", "date_time", "2026-01-02T03:04:05.678901"),
        ("decimal(9, 2)", "1.50", "string", "1.50"),
        ("float", 0.5, "float", 0.5),
        ("boolean", True, "bool", True),
    ],
)
def test_files_that_are_older_than_a_column_have_its_default(
    kind: str, default: Any, declared: str, value: Any, lake: Lake
) -> None:
    """Version 3 of the format has defaults; the library reads its tables and makes none."""
    lake.append(ids(1, s=[{"a": 1}]))

    def change(metadata: dict[str, Any]) -> None:
        columns = metadata["schemas"][0]["fields"]
        about = {"required": True, "type": kind, "initial-default": default, "write-default": default}
        columns.append({"id": 10, "name": "new", **about})
        columns[1]["type"]["fields"].append({"id": 11, "name": "b", **about})
        metadata["last-column-id"] = 11

    iceberg_tables.with_metadata_of_version_3(lake.table, change)
    assert lake.records(f"id: int, new: {declared}, s.a: int, s.b: {declared}", unmapped="drop") == [
        {"id": 1, "new": value, "s.a": 1, "s.b": value}
    ]
    assert lake.records("id: int, new: any", cxl="filter new.is_null()", unmapped="drop") == []


def test_of_partitions_of_nanoseconds_no_bounds_are_known() -> None:
    """Footers have microseconds, which would not be exact."""
    kind = snapshots.arrow_of(Schema(NestedField(1, "t", TimestampNanoType()))).field("t").type
    assert snapshots._constant(snapshots._scalar(1772323200000000001, kind), 1) is None


def test_bounds_of_dates_say_nothing_of_moments() -> None:
    """A column of dates may have become one of moments: days are not microseconds."""
    assert snapshots._value((20000).to_bytes(4, "little"), pa.timestamp("us")) is None
    assert snapshots._value((20000).to_bytes(8, "little"), pa.timestamp("us")) == 20000


def test_a_snapshot_is_chosen_by_its_id_by_a_moment_or_by_a_name(lake: Lake) -> None:
    table = lake.append(ids(1))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "closed").commit()
    lake.append(ids(2))
    between = datetime.datetime.fromtimestamp(first.timestamp_ms / 1000, datetime.UTC).isoformat()
    for options in (f"snapshot: {first.snapshot_id}", f"timestamp: '{between}'", "ref: closed"):
        assert lake.records("id: int", options) == [{"id": 1}]
    assert lake.records("id: int") == [{"id": 1}, {"id": 2}]
    assert "there is no snapshot 7; the newest one is" in lake.refusal(options="snapshot: 7").message
    assert "there was no snapshot at 2001-01-01" in lake.refusal(options="timestamp: 2001-01-01").message
    assert "there is no branch or tag 'open'" in lake.refusal(options="ref: open").message


def test_what_is_no_table_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    error = lake.refusal()
    assert error.code == "E912"
    assert "there is no such table in catalogue 'lake'" in error.message
    assert clinker.main(["validate", str(lake.folder / "pipeline.yaml")]) == 1
    (lake.folder / "clinker.toml").write_text("")
    message = lake.refusal().message
    assert "add [catalogs.lake] with `uri` to clinker.toml, which has none" in message
    assert "PYICEBERG_CATALOG__LAKE__URI" in message
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "http://127.0.0.1:9/")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "a-secret-of-mine")
    assert "a-secret-of-mine" not in lake.refusal().message


def test_a_file_of_the_library_that_is_broken_is_named_without_its_lines(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.write(lake.folder, {"home/.pyiceberg.yaml": "catalog:\n  lake:\n    token: {x: a-secret-of-mine}\n"})
    monkeypatch.setenv("PYICEBERG_HOME", str(lake.folder / "home"))
    error = lake.refusal()
    assert "line 3 of .pyiceberg.yaml cannot be read" in error.message
    assert "a-secret-of-mine" not in error.message
    assert error.code == "E912"


def test_an_empty_table_has_no_records(lake: Lake) -> None:
    lake.catalog.create_namespace("shop")
    lake.catalog.create_table("shop.sales", ids().schema)
    assert lake.records("id: int") == []


@pytest.mark.parametrize("split_bytes", [400, 1 << 20])
def test_rows_that_were_deleted_are_left_out(split_bytes: int, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines.cut_by(monkeypatch, split_bytes)
    table = lake.append(ids(*range(100)), properties={"write.parquet.row-group-limit": "9"})
    (path,) = (task.file.file_path for task in table.scan().plan_files())
    iceberg_tables.delete_positions(table, {path: [0, 7, 99]}, DataFileContent.POSITION_DELETES)
    iceberg_tables.delete_positions(lake.table, {path: [8, 50]}, DataFileContent.POSITION_DELETES)
    lake.append(ids(0, 7))
    left = [number for number in range(100) if number not in (0, 7, 8, 50, 99)]
    assert [each["id"] for each in lake.records("id: int")] == [*left, 0, 7]
    assert [each["id"] for each in lake.records("id: int", cxl="filter id > 95 or id < 8")] == [
        1, 2, 3, 4, 5, 6, 96, 97, 98, 0, 7
    ]  # fmt: skip


def test_deleted_rows_that_a_file_does_not_have_are_ignored(lake: Lake) -> None:
    table = lake.append(ids(1, 2, 3))
    path = table.inspect.files()["file_path"][0].as_py()
    iceberg_tables.delete_positions(table, {path: [1, 1, 77]}, DataFileContent.POSITION_DELETES)
    assert lake.records("id: int") == [{"id": 1}, {"id": 3}]


def test_rows_that_were_deleted_by_their_values_are_refused(lake: Lake) -> None:
    table = lake.append(ids(1))
    iceberg_tables.delete_positions(table, {"x": [1]}, DataFileContent.EQUALITY_DELETES)
    error = lake.refusal()
    assert error.code == "E912"
    assert "rewrite_data_files" in error.message


def test_files_without_a_record_that_passes_are_not_opened(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 6):
        lake.append(ids(day, day + 10, day=days(day, day)), partition_by="day")
    real, opened = parquet_read.OpenFile.__init__, []

    def noted(self: Any, file: Any, *rest: Any) -> None:
        opened.append(file.name)
        real(self, file, *rest)

    monkeypatch.setattr(parquet_read.OpenFile, "__init__", noted)
    outcome = lake.read("id: int, day: date", cxl="filter day == #2026-01-03#")
    assert [json.loads(line)["id"] for line in (lake.folder / "out/rows").read_text().splitlines()] == [3, 13]
    assert len(set(opened)) == 1
    assert outcome.nodes["rows"]["records_out"] == 10
    opened.clear()
    lake.read("id: int, day: date", cxl="filter id >= 14")
    assert [json.loads(line)["id"] for line in (lake.folder / "out/rows").read_text().splitlines()] == [14, 15]
    assert len(set(opened)) == 2
    shown = explain.text(plan.load(lake.folder / "pipeline.yaml"))
    assert "table: shop.sales of catalogue 'lake', the newest snapshot" in shown
    assert f"snapshot: {lake.table.current_snapshot().snapshot_id}" in shown  # type: ignore[union-attr]
    assert "files: 5, of which 3 are not opened" in shown
    assert "partitions: day" in shown


def test_bounds_of_all_kinds_pass_files_over(lake: Lake) -> None:
    moments = pa.array([datetime.datetime(2026, 1, 1, 0, 0, 0, 7)], pa.timestamp("us", "UTC"))
    for number, text in ((1, "b"), (2, "d")):
        lake.append(ids(number, t=[text], m=moments, d=days(number), b=[number > 1], i=pa.array([number], pa.int32())))
    schema = "id: int, t: string, m: date_time, d: date, b: bool, i: int"
    for condition, found in {
        't == "d"': [2], 't < "a"': [], "i > 1": [2], "d > #2026-01-01#": [2], "b": [2], "id < 0": [],
    }.items():  # fmt: skip
        assert [each["id"] for each in lake.records(schema, cxl=f"filter {condition}")] == found


def test_records_that_do_not_convert_are_dead_letters_with_file_and_row(lake: Lake) -> None:
    lake.append(ids(1, 2, v=["1", "x"]))
    assert lake.read("id: int, v: int").result.exit_code == 2
    header, row = (line.split(",") for line in (lake.folder / "out/dlq.csv").read_text().splitlines())
    entry = dict(zip(header, row, strict=False))
    assert entry["_cxl_dlq_source_row"] == "2"
    assert entry["_cxl_dlq_source_file"].startswith("shop.sales/data/")


def test_files_outside_of_the_table_need_consent(lake: Lake) -> None:
    table = lake.append(ids(1))
    parquet.write_table(ids(5), lake.folder / "secret.parquet")
    table.add_files([f"file://{lake.folder}/secret.parquet"])
    assert lake.refusal().code == "E-SEC-001"
    assert lake.records("id: int", allow_absolute_paths=True) == [{"id": 1}, {"id": 5}]


def test_a_link_out_of_the_table_needs_consent(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> None:
    lake.append(ids(1))
    (file,) = (lake.folder / "warehouse").rglob("*.parquet")
    file.symlink_to(file.rename(tmp_path_factory.mktemp("outside") / "secret"))
    assert lake.refusal().code == "E-SEC-001"


def test_a_snapshot_whose_files_are_gone_is_refused(lake: Lake) -> None:
    lake.append(ids(1))
    (file,) = (lake.folder / "warehouse").rglob("*.parquet")
    file.unlink()
    error = lake.refusal(allow_absolute_paths=True)
    assert error.code == "E912"
    assert "the snapshot has expired" in error.message


@pytest.mark.parametrize(
    ("written", "code", "text"),
    [
        ("glob: '*', options: { table: a.b }", "E219", "chooses its files by itself"),
        ("path: x, options: { table: a.b }", "E219", "an iceberg source chooses its files by itself"),
        ("options: {}", "E007", "the name of a table is needed"),
        ("options: { table: sales }", "E007", "write `namespace.table`"),
        ("options: { table: a.b, catalog: 'a b' }", "E007", "letters, digits"),
        ("options: { table: a.b, snapshot: 1, ref: x }", "E007", "exclude each other"),
        ("options: { table: a.b, timestamp: yesterday }", "E007", "is no moment"),
        ("options: { table: a.b }, incremental: { column: id }", "E225", "grows by versions that are added"),
    ],
)
def test_keys_that_do_not_fit_are_refused(
    written: str, code: str, text: str, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"config: {{ type: iceberg, {written}, schema: {{ id: int }} }}"
    pipelines.write(lake.folder, {"pipeline.yaml": f"""
        pipeline: {{ name: p }}
        nodes:
          - {{ type: source, name: rows, {source} }}
          - {{ type: output, name: o, input: rows, config: {{ type: json, path: out/rows }} }}
        """})  # fmt: skip
    assert clinker.main(["validate", str(lake.folder / "pipeline.yaml")]) == 1
    shown = capsys.readouterr().err
    assert code in shown
    assert text in " ".join(shown.split())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('token = "x-secret-x"', "set the variable PYICEBERG_CATALOG__LAKE__TOKEN"),
        ('s3.secret-access-key = "x-secret-x"', "set the variable PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY"),
        ('uri = "postgresql://me:x-secret-x@host/db"', "is a secret"),
        ('py-catalog-impl = "mine.Catalog"', "names code to load"),
    ],
)
def test_a_workspace_has_neither_secrets_nor_code(
    line: str, text: str, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.append(ids(1))
    (lake.folder / "clinker.toml").write_text(f"[catalogs.lake]\n{line}\n")
    lake.write("id: int")
    assert clinker.main(["validate", str(lake.folder / "pipeline.yaml")]) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert "E340" in shown
    assert text in shown


def test_the_package_that_is_missing_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append(ids(1))
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    assert "pip install 'clinker-spark[iceberg]'" in lake.refusal().message


def test_a_table_in_a_store_is_read(lake: Lake, s3: Bucket) -> None:
    written = f'[catalogs.lake]\nuri = "sqlite:///catalog.db"\nwarehouse = "{s3.uri("warehouse")}"\n'
    (lake.folder / "clinker.toml").write_text(written)
    lake.catalog = iceberg_tables.in_store(lake.folder, s3)
    lake.append(ids(1, 2, 3, day=days(1, 0, 2)), partition_by="day")
    found = lake.records("id: int, day: date", cxl="filter id > 1")
    assert sorted(each["id"] for each in found) == [2, 3]
    gone = next(key for key in s3.keys() if key.endswith(".parquet"))  # noqa: SIM118
    s3.client.delete_object(Bucket=s3.name, Key=gone)
    assert "the snapshot has expired" in lake.refusal("id: int, day: date").message


def test_a_case_gives_rows_in_place_of_a_table(lake: Lake) -> None:
    case = """
        pipeline: ../pipeline.yaml
        cases:
          - name: rows stand for the table
            given: { rows: [{ id: 4 }] }
            expect: { o: [{ id: 4 }] }
        """
    lake.write("id: int", unmapped="drop")
    pipelines.write(lake.folder, {"tests/rows.test.yaml": case})
    assert clinker.main(["test", str(lake.folder)]) == 0
