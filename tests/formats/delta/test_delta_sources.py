"""Delta tables as sources of whole pipelines."""

from __future__ import annotations

import datetime
import json
import os
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

from spark_jobs import plan
from spark_jobs.cli import clinker
from spark_jobs.formats.delta import log
from spark_jobs.formats.delta.options import DeltaRead
from spark_jobs.formats.parquet import read as parquet_read
from spark_jobs.formats.reader import SourceContext
from tests import delta_tables
from tests.delta_tables import HandWritten, column, structure
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import AnyBucket

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dlq.csv }} }}
nodes:
  - type: source
    name: rows
    config:
      type: delta
      path: '{path}'
      options: {{ {options} }}
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
    """A folder with a pipeline that reads the table `sales` there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "sales"

    def append(self, rows: pa.Table, **how: Any) -> None:
        write_deltalake(self.path, rows, mode="append", **how)

    def write(self, schema: str, options: str, cxl: str, path: str, unmapped: str) -> None:
        text = PIPELINE.format(schema=schema, options=options, cxl=cxl, path=path, unmapped=unmapped)
        pipelines.write(self.folder, {"pipeline.yaml": text})

    def read(
        self, schema: str, options: str = "", cxl: str = "emit id = id", path: str = "sales", unmapped: str = "",
        **chosen: Any,
    ) -> Any:  # fmt: skip
        self.write(schema, options, cxl, path, unmapped or "auto_widen")
        return pipelines.run(self.folder, force=True, **chosen)

    def records(self, schema: str, options: str = "", **chosen: Any) -> list[dict[str, Any]]:
        outcome = self.read(schema, options, **chosen)
        assert outcome.result.exit_code == 0, outcome.result.error
        return [json.loads(line) for line in (self.folder / "out/rows").read_text().splitlines()]

    def refusal(self, schema: str = "id: int", options: str = "", **chosen: Any) -> Any:
        outcome = self.read(schema, options, **chosen)
        assert outcome.result.error is not None
        return outcome.result


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    without_spark.install(monkeypatch)
    return Lake(tmp_path)


def ids(*numbers: int, **more: Any) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), **more})


def test_columns_have_the_types_of_the_table(lake: Lake) -> None:
    lake.append(
        pa.table(
            {
                "id": pa.array([1, 2], pa.int32()),
                "f": pa.array([1.5, None], pa.float32()),
                "b": [True, None],
                "t": ["ä", None],
                "d": [datetime.date(2026, 1, 2), None],
                "m": pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5, 678901), None], pa.timestamp("us", "UTC")),
                "n": pa.array([Decimal("12345678901234567890.12"), None], pa.decimal128(30, 2)),
                "s": [{"x": 1, "y": "z"}, None],
                "l": [[1, 2], None],
            }
        )
    )
    assert lake.records("id: int") == [
        {
            "id": 1, "f": 1.5, "b": True, "t": "ä", "d": "2026-01-02", "m": "2026-01-02T03:04:05.678901",
            "n": "12345678901234567890.12", "s.x": 1, "s.y": "z", "l": [1, 2],
        },
        {"id": 2, **dict.fromkeys(["f", "b", "t", "d", "m", "n", "s.x", "s.y", "l"])},
    ]  # fmt: skip


def test_partitions_are_columns_and_may_be_null(lake: Lake) -> None:
    days = pa.array([datetime.date(2026, 1, 1), None, datetime.date(2026, 1, 1)])
    lake.append(ids(1, 2, 3, day=days, place=["a/b=ü %", "x", None]), partition_by=["day", "place"])
    found = lake.records("id: int, day: date, place: string", cxl="emit file = $source.file")
    files = [record.pop("file") for record in found]
    assert sorted(found, key=lambda record: record["id"]) == [
        {"id": 1, "day": "2026-01-01", "place": "a/b=ü %"},
        {"id": 2, "day": None, "place": "x"},
        {"id": 3, "day": "2026-01-01", "place": None},
    ]
    assert all((lake.folder / file).exists() for file in files)
    # Nothing but values of partitions is read, or nothing at all.
    pairs = lake.records("day: date", cxl="emit d = day", unmapped="drop")
    assert sorted(str(record["d"]) for record in pairs) == ["2026-01-01", "2026-01-01", "None"]
    assert lake.records("day: date", cxl="emit one = 1", unmapped="drop")[0]["one"] == 1


def test_older_files_lack_columns_that_came_later(lake: Lake) -> None:
    lake.append(ids(1, n=pa.array([1], pa.int64())))
    lake.append(ids(2, n=pa.array([2], pa.int64()), name=["new"]), schema_mode="merge")
    assert lake.records("id: int, name: string, n: int") == [
        {"id": 1, "name": None, "n": 1}, {"id": 2, "name": "new", "n": 2}
    ]  # fmt: skip
    # Where it is required, each of their records lacks it.
    outcome = lake.read("id: int, name: { type: string, required: true }")
    assert outcome.result.exit_code == 2
    assert [json.loads(line)["id"] for line in (lake.folder / "out/rows").read_text().splitlines()] == [2]


def test_a_version_or_a_moment_is_read(lake: Lake) -> None:
    lake.append(ids(1))
    between = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1)
    for number, seconds in ((0, -3600), (1, 3600)):
        if number:
            lake.append(ids(2))
        log = lake.path / "_delta_log" / f"{number:020}.json"
        moment = (between + datetime.timedelta(seconds=seconds)).timestamp()
        os.utime(log, (moment, moment))
    assert lake.records("id: int", "version: 0") == [{"id": 1}]
    assert lake.records("id: int") == [{"id": 1}, {"id": 2}]
    assert lake.records("id: int", f"timestamp: '{between.isoformat()}'") == [{"id": 1}]
    assert "no version 7: the newest one is 1" in str(lake.refusal(options="version: 7").error)
    assert "there was no version at" in str(lake.refusal(options="timestamp: 2001-01-01").error)


def test_other_writers_change_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append(ids(1, 2))
    real, written = parquet_read.OpenFile.__init__, []

    def opened(*args: Any) -> None:
        if not written:
            written.append(1)
            write_deltalake(lake.path, ids(9), mode="overwrite")
        real(*args)

    monkeypatch.setattr(parquet_read.OpenFile, "__init__", opened)
    assert lake.records("id: int") == [{"id": 1}, {"id": 2}]
    assert written
    assert lake.records("id: int") == [{"id": 9}]


def test_what_is_no_table_is_refused(lake: Lake) -> None:
    result = lake.refusal()
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "no Delta table is there" in result.error.message
    lake.path.mkdir()
    parquet.write_table(ids(1), lake.path / "a.parquet")
    assert "no Delta table is there" in lake.refusal().error.message
    assert clinker.main(["validate", str(lake.folder / "pipeline.yaml")]) == 1


def test_a_version_whose_files_are_gone_is_refused(lake: Lake) -> None:
    lake.append(ids(1))
    write_deltalake(lake.path, ids(2), mode="overwrite")
    DeltaTable(lake.path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    result = lake.refusal(options="version: 0")
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "the table was vacuumed" in result.error.message
    assert lake.records("id: int") == [{"id": 2}]


@pytest.mark.parametrize("split_bytes", [400, 1 << 20])
def test_large_files_are_read_in_parts(split_bytes: int, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines.cut_by(monkeypatch, split_bytes)
    table = HandWritten(lake.path, structure(column("id", "long"), column("p", "string")), ("p",), ("deletionVectors",))
    rows = pa.table({"id": range(100)})
    gone = [0, 7, 8, 50, 99]
    vector = delta_tables.deletion_vector(gone)
    table.commit(
        table.file("a.parquet", rows, partition={"p": "x"}, deletionVector=vector, written={"row_group_size": 9}),
        table.file("b.parquet", rows, partition={"p": "y"}, written={"row_group_size": 33}),
    )
    found = lake.records("id: int, p: string", cxl="emit row = $source.row")
    left = [number for number in range(100) if number not in gone]
    assert [(record["id"], record["p"]) for record in found] == [
        *((number, "x") for number in left), *((number, "y") for number in range(100))
    ]  # fmt: skip
    assert [record["row"] for record in found] == [*range(1, 96), *range(1, 101)]
    # A filter passes row groups and files over, and what is deleted counts for nothing.
    outcome = lake.read("id: int, p: string", cxl='filter id > 95 and p == "x"')
    assert [json.loads(line)["id"] for line in (lake.folder / "out/rows").read_text().splitlines()] == [96, 97, 98]
    assert outcome.nodes["rows"]["records_out"] == 195


def test_files_without_a_record_that_passes_are_not_opened(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 6):
        dates = pa.array([datetime.date(2026, 1, day)] * 2)
        lake.append(ids(day, day + 10, day=dates), partition_by=["day"])
    real, opened = parquet_read.OpenFile.__init__, []

    def noted(self: Any, file: Any, *rest: Any) -> None:
        opened.append(file.name)
        real(self, file, *rest)

    monkeypatch.setattr(parquet_read.OpenFile, "__init__", noted)
    outcome = lake.read("id: int, day: date", cxl="filter day == #2026-01-03#")
    found = (lake.folder / "out/rows").read_text().splitlines()
    assert [json.loads(line)["id"] for line in found] == [3, 13]
    assert len(set(opened)) == 1
    assert outcome.nodes["rows"]["records_out"] == 10
    opened.clear()
    lake.read("id: int, day: date", cxl="filter id >= 14")
    assert [json.loads(line)["id"] for line in (lake.folder / "out/rows").read_text().splitlines()] == [14, 15]
    assert len(set(opened)) == 2


def test_explain_shows_the_version_and_the_files(lake: Lake) -> None:
    for day in range(1, 6):
        lake.append(ids(day, day + 10, day=[f"2026-01-0{day}"] * 2), partition_by=["day"])
    lake.write("id: int, day: string", "", 'filter day == "2026-01-03"', "sales", "auto_widen")
    from spark_jobs.plan.explain import explain

    shown = explain.text(plan.load(lake.folder / "pipeline.yaml"))
    assert "table: sales, the newest version" in shown
    assert "version: 4" in shown
    assert "files: 5, of which 4 are not opened" in shown
    assert "partitions: day" in shown


def test_records_that_do_not_convert_are_dead_letters_with_file_and_row(lake: Lake) -> None:
    lake.append(ids(1, 2, v=["1", "x"]))
    outcome = lake.read("id: int, v: int")
    assert outcome.result.exit_code == 2
    header, row = (line.split(",") for line in (lake.folder / "out/dlq.csv").read_text().splitlines())
    entry = dict(zip(header, row, strict=False))
    assert entry["_cxl_dlq_source_row"] == "2"
    assert entry["_cxl_dlq_source_file"].startswith("sales/part-")
    # A value of a partition fails for each of its rows.
    write_deltalake(lake.folder / "other", ids(1, 2, v=["7", "x"]), partition_by=["v"])
    outcome = lake.read("id: int, v: int", path="other", cxl="filter v > 100")
    assert outcome.result.exit_code == 2


def test_columns_may_be_called_otherwise_in_the_files(lake: Lake) -> None:
    inner = structure(column("m", "long", "c3", 3))
    schema = structure(column("id", "long", "c1", 1), column("n", inner, "c2", 2), column("p", "integer", "c4", 4))
    table = HandWritten(
        lake.path, schema, ("p",), ("columnMapping",),
        {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "4"},
    )  # fmt: skip
    rows = pa.table({"c1": [1, 2, 3], "c2": [{"c3": 5}, None, {"c3": 6}], "dropped": ["x", "y", "z"]})
    known = {"minValues": {"c1": 1}, "maxValues": {"c1": 3}, "nullCount": {"c1": 0}}
    table.commit(table.file("x/f.parquet", rows, stats=known, partition={"c4": "7"}, written={"row_group_size": 1}))
    expected = [{"id": 1, "n.m": 5, "p": 7}, {"id": 2, "n.m": None, "p": 7}, {"id": 3, "n.m": 6, "p": 7}]
    assert lake.records("id: int, n.m: int, p: int") == expected
    assert lake.records("id: int, n.m: int, p: int", cxl="filter id >= 3") == expected[2:]
    assert lake.records("id: int, n.m: int, p: int", cxl="filter id >= 4") == []
    assert lake.records("id: int, n: map, p: int")[0]["n"] == {"m": 5}


def test_types_may_have_become_wider(lake: Lake) -> None:
    schema = structure(column("id", "long"), column("f", "double"))
    table = HandWritten(lake.path, schema, features=("typeWidening",))
    narrow = pa.table({"id": pa.array([1], pa.int32()), "f": pa.array([0.5], pa.float32())})
    table.commit(table.file("a.parquet", narrow), table.file("b.parquet", ids(2, f=[1.5])))
    assert lake.records("id: int, f: float") == [{"id": 1, "f": 0.5}, {"id": 2, "f": 1.5}]


def test_moments_of_old_writers_are_read_in_all_years(lake: Lake) -> None:
    moments = [datetime.datetime(1, 1, 1), datetime.datetime(2400, 5, 6, 7, 8, 9, 123456)]
    table = HandWritten(lake.path, structure(column("id", "long"), column("m", "timestamp")))
    rows = ids(1, 2, m=pa.array(moments[1:] * 2, pa.timestamp("us")))
    table.commit(table.file("a.parquet", rows, written={"use_deprecated_int96_timestamps": True}))
    assert lake.records("id: int, m: date_time")[0]["m"] == "2400-05-06T07:08:09.123456"


def test_moments_of_statistics_are_cut_to_milliseconds(lake: Lake) -> None:
    """The last moment of a file may be some microseconds later than its statistics say."""
    moment = datetime.datetime(2026, 1, 1, 0, 0, 0, 999, datetime.UTC)
    table = HandWritten(lake.path, structure(column("id", "long"), column("m", "timestamp")))
    rows = ids(1, m=pa.array([moment], pa.timestamp("us", "UTC")))
    said = {key: {"m": "2026-01-01T00:00:00.000Z", "id": 1} for key in ("minValues", "maxValues")}
    table.commit(table.file("a.parquet", rows, stats={**said, "nullCount": {"m": 0, "id": 0}}))
    (file,) = log.files(DeltaRead(), SourceContext(lake.folder, "sales"), {"m"})
    known = file.table.chunks["m"]
    assert known.lowest <= int(moment.timestamp() * 1e6) <= known.highest


def test_what_a_reader_must_know_and_does_not_is_refused(lake: Lake) -> None:
    table = HandWritten(lake.path, structure(column("id", "long")), features=("variantType",))
    table.commit(table.file("a.parquet", ids(1)))
    assert "needs a reader that knows variantType" in lake.refusal().error.message


@pytest.mark.parametrize("feature", ["variantType", "variantShredding-preview", "catalogManaged", "somethingNew"])
def test_features_of_readers_are_refused_by_name(feature: str, lake: Lake) -> None:
    table = HandWritten(lake.path, structure(column("id", "long")), features=("deletionVectors", feature))
    table.commit(table.file("a.parquet", ids(1)))
    error = lake.refusal().error
    assert error.code == "E912"
    assert feature in error.message


def test_moments_without_a_zone_are_read(lake: Lake) -> None:
    schema = structure(column("id", "long"), column("m", "timestamp_ntz"))
    table = HandWritten(lake.path, schema, features=("timestampNtz",))
    moments = pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)], pa.timestamp("us"))
    table.commit(table.file("a.parquet", ids(1, m=moments)))
    assert lake.records("id: int, m: date_time") == [{"id": 1, "m": "2026-01-02T03:04:05.678901"}]


def test_rows_that_are_tracked_are_read(lake: Lake) -> None:
    """Files have columns of row ids then, which are none of the table."""
    table = HandWritten(lake.path, structure(column("id", "long")), features=("rowTracking", "domainMetadata"))
    rows = ids(1, 2).append_column("_row-id-col-x", pa.array([7, None], pa.int64()))
    domain = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark": 8}', "removed": False}
    added = table.file("a.parquet", rows, baseRowId=0, defaultRowCommitVersion=0)
    table.commit({"domainMetadata": domain}, added)
    for_writers = lake.path / "_delta_log/00000000000000000000.json"
    named = '"readerFeatures": ["rowTracking", "domainMetadata"]'
    text = for_writers.read_text()
    assert named in text
    for_writers.write_text(text.replace(named, '"readerFeatures": []'))
    assert lake.records("id: int") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("name", ["../secret.parquet", "x/../../secret.parquet", "file:///etc/secret.parquet"])
def test_files_outside_of_the_table_are_refused(name: str, lake: Lake) -> None:
    table = HandWritten(lake.path, structure(column("id", "long")))
    action = table.file("a.parquet", ids(1))
    action["add"]["path"] = name
    parquet.write_table(ids(5), lake.folder / "secret.parquet")
    table.commit(action)
    result = lake.refusal()
    assert result.error.code in ("E-SEC-001", "E912")
    assert not (lake.folder / "out").exists() or not list((lake.folder / "out").iterdir())


def test_a_link_out_of_the_base_folder_is_refused(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> None:
    lake.append(ids(1))
    (file,) = lake.path.glob("*.parquet")
    file.symlink_to(file.rename(tmp_path_factory.mktemp("outside") / "secret"))
    assert lake.refusal().error.code == "E-SEC-001"
    assert lake.records("id: int", allow_absolute_paths=True) == [{"id": 1}]


@pytest.mark.parametrize(
    ("written", "code", "text"),
    [
        ("glob: '*'", "E219", "chooses its files by itself"),
        ("path: sales, files: { take_first: 1 }", "E219", "chooses its files by itself"),
        ("options: {}", "E211", "needs `path`"),
        ("path: sales, options: { version: 1, timestamp: 2026-01-01 }", "E007", "exclude each other"),
        ("path: sales, options: { timestamp: yesterday }", "E007", "is no moment"),
        ("path: sales, options: { version: -1 }", "E007", "version"),
    ],
)
def test_keys_that_do_not_fit_are_refused(
    written: str, code: str, text: str, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"config: {{ type: delta, {written}, schema: {{ id: int }} }}"
    text_of = f"""
        pipeline: {{ name: p }}
        nodes:
          - {{ type: source, name: rows, {source} }}
          - {{ type: output, name: o, input: rows, config: {{ type: json, path: out/rows }} }}
        """
    pipelines.write(lake.folder, {"pipeline.yaml": text_of})
    assert clinker.main(["validate", str(lake.folder / "pipeline.yaml")]) == 1
    shown = capsys.readouterr().err
    assert code in shown
    assert text in " ".join(shown.split())


def test_the_package_that_is_missing_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append(ids(1))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert "pip install 'clinker-spark[delta]'" in lake.refusal().error.message


def test_a_table_in_a_store_is_read(lake: Lake, lake_bucket: AnyBucket) -> None:
    days = pa.array(["a b", None, "ü/"])
    write_deltalake(lake.path, ids(1, 2, 3, day=days), partition_by=["day"])
    delta_tables.copy(lake.path, lake_bucket, "lake/sales")
    here = lake.records("id: int, day: string")
    uri = lake_bucket.uri("lake/sales")
    others = {"s3": "s3a", "gs": "gs", "abfss": "abfs"}
    for written in (uri, f"{uri}/".replace(f"{lake_bucket.scheme}:", f"{others[lake_bucket.scheme]}:")):
        there = lake.records("id: int, day: string", path=written, allow_absolute_paths=True)
        assert there == here
    gone = next(key for key in lake_bucket.keys() if key.endswith(".parquet"))  # noqa: SIM118
    lake_bucket.delete(gone)
    result = lake.refusal("id: int, day: string", path=uri, allow_absolute_paths=True)
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "the table was vacuumed" in result.error.message
    nothing = lake.refusal("id: int", path=lake_bucket.uri("lake/none"), allow_absolute_paths=True)
    assert "no Delta table is there" in nothing.error.message
    nothing = lake.refusal("id: int", path=f"{lake_bucket.missing()}lake/sales", allow_absolute_paths=True)
    assert (nothing.error.code, nothing.exit_code) == ("E910", 4)
    assert "is named `no-such-bucket`" in nothing.error.message


def test_a_key_means_what_it_says(lake: Lake, lake_bucket: AnyBucket) -> None:
    """What follows a `#` in an address would be left out by the library, and it takes `%20` for a blank."""
    lake.append(ids(1, 2))
    lake.append(ids(3))
    name = "lake/100% a bü#1?+=&/sales"
    delta_tables.copy(lake.path, lake_bucket, name)
    found = lake.records("id: int", path=lake_bucket.uri(name), allow_absolute_paths=True)
    assert found == [{"id": 1}, {"id": 2}, {"id": 3}]
    for path in (lake_bucket.uri("lake/a%20b"), "a%20b"):
        error = lake.refusal(path=path, allow_absolute_paths=True).error
        assert error.code == "E912"
        assert "takes `%` and two digits for a letter" in error.message


def test_there_are_no_tables_on_hdfs(lake: Lake) -> None:
    error = lake.refusal("id: int", path="hdfs://cluster/lake/sales", allow_absolute_paths=True).error
    assert error.code == "E912"
    assert "on S3, on Google Cloud Storage and on Azure" in error.message


def test_a_case_gives_rows_in_place_of_a_table(lake: Lake) -> None:
    case = """
        pipeline: ../pipeline.yaml
        cases:
          - name: rows stand for the table
            given: { rows: [{ id: 4 }] }
            expect: { o: [{ id: 4 }] }
        """
    lake.write("id: int", "", "emit id = id", "sales", "drop")
    pipelines.write(lake.folder, {"tests/rows.test.yaml": case})
    assert clinker.main(["test", str(lake.folder)]) == 0
