"""Records merged into Delta tables by keys, read by the table's own library."""

from __future__ import annotations

import decimal
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import deltalake.transaction
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.execute.delivery.delta import commit as delta_commit
from spark_jobs.execute.delivery.tables import merge as merging
from spark_jobs.execute.delivery.tables import output
from spark_jobs.execute.delivery.tables.output import WriteResources
from spark_jobs.execute.run import executor
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark
from tests.execute.delivery.merges import BESIDE, SCHEMA, check_a_death_is_completed, done, row

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import AnyBucket

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
    config: {{ type: delta, path: '{path}', options: {{ mode: merge, {options} }}{more} }}
{nodes}
"""


class Lake:
    """A folder with a pipeline that merges records into the table `lake/sales` there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "lake/sales"

    def prepare(self, rows: list[dict[str, Any]], **said: str) -> None:
        known = {"path": "lake/sales", "schema": SCHEMA, "options": "key: id", "nodes": "", "more": "", "source": ""}
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        pipelines.write(self.folder, {"pipeline.yaml": PIPELINE.format(**{**known, **said}), "in.ndjson": lines})

    def merge(self, *rows: dict[str, Any], chosen: dict[str, Any] | None = None, **said: str) -> Any:
        self.prepare([*rows], **said)
        return pipelines.run(self.folder, **{"force": True, **(chosen or {})}).result

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in DeltaTable(self.path).to_pyarrow_table().to_pylist())

    def files(self) -> set[str]:
        return {path.rpartition("sales/")[2] for path in DeltaTable(self.path).file_uris()}

    def left(self) -> list[str]:
        """What stands in the folder of the table and no version has."""
        known: set[str] = set()
        for version in range(DeltaTable(self.path).version() + 1):
            known |= {path.rpartition("sales/")[2] for path in DeltaTable(self.path, version=version).file_uris()}
        there = {str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()}
        return sorted(name for name in there - known if not name.startswith("_delta_log/0"))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    without_spark.install(monkeypatch)
    return Lake(tmp_path)


@pytest.fixture(params=["driver", "tasks"])
def chosen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The driver does all by itself, or tasks do, which hold next to nothing at once."""
    if request.param == "driver":
        return {}
    monkeypatch.setattr(output, "WriteResources", lambda folder, _, guard: WriteResources(folder, 64, guard))
    return {"tuning": Tuning(driver_output_bytes=0)}


def test_records_replace_the_rows_with_their_keys_and_else_are_new(lake: Lake, chosen: dict[str, Any]) -> None:
    done(lake.merge(row(1, "a"), row(2, "b"), row(3, "c"), chosen=chosen))
    assert lake.rows() == [(1, "a"), (2, "b"), (3, "c")]
    done(lake.merge(row(2, "B"), row(4, "D"), chosen=chosen))
    assert lake.rows() == [(1, "a"), (2, "B"), (3, "c"), (4, "D")]
    assert DeltaTable(lake.path).version() == 1
    # Merging the same again changes nothing that can be read.
    done(lake.merge(row(2, "B"), row(4, "D"), chosen=chosen))
    assert lake.rows() == [(1, "a"), (2, "B"), (3, "c"), (4, "D")]
    assert lake.left() == []


def test_a_flag_takes_rows_away(lake: Lake, chosen: dict[str, Any]) -> None:
    write_deltalake(lake.path, pa.table({"id": [1, 2, 3, 3], "v": ["a", "b", "c", "d"]}))
    said = {"schema": SCHEMA + ", gone: bool", "options": "key: id, delete_flag: gone"}
    rows = [
        row(1, "x", gone=True),
        row(2, "B", gone=False),
        row(3, gone=True),
        row(4, "n", gone=None),
        row(5, gone=True),
    ]
    done(lake.merge(*rows, chosen=chosen, **said))
    assert lake.rows() == [(2, "B"), (4, "n")]
    assert DeltaTable(lake.path).to_pyarrow_table().column_names == ["id", "v"]


def test_columns_that_records_lack_keep_their_values(
    lake: Lake, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.cut_by(monkeypatch, 300)
    chosen = {"tuning": replace(chosen.get("tuning", Tuning()), kept_bytes=200)}
    numbers = range(300)
    for some in (numbers[:100], numbers[100:]):
        table = pa.table({"n": [f"n{at}" for at in some], "id": pa.array(some, pa.int16()), "v": ["old"] * len(some)})
        write_deltalake(lake.path, table.append_column("w", pa.array([[at] for at in some])), mode="append")
    done(lake.merge(*(row(at, "new") for at in range(299, -10, -3)), chosen=chosen))
    found = {each["id"]: each for each in DeltaTable(lake.path).to_pyarrow_table().to_pylist()}
    assert len(found) == 303
    for at in numbers:
        assert found[at] == {"n": f"n{at}", "id": at, "v": "new" if (299 - at) % 3 == 0 else "old", "w": [at]}
    assert [found[at] for at in (-1, -4, -7)] == [{"n": None, "id": at, "v": "new", "w": None} for at in (-1, -4, -7)]


def test_only_files_with_rows_that_change_are_written_again(
    lake: Lake, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for some in ([1, 2], [3, 9], [4, 5]):
        write_deltalake(lake.path, pa.table({"id": some, "v": ["x"] * 2}), mode="append")
    before, opened = lake.files(), []
    real = merging._rewritten

    def noted(merge: Any, groups: Any, file: Any) -> Any:
        opened.append(file.name)
        return real(merge, groups, file)

    if not chosen:
        monkeypatch.setattr(merging, "_rewritten", noted)
    done(lake.merge(row(4, "y"), row(6, "z"), chosen=chosen))
    assert len(before & lake.files()) == 2
    assert lake.rows() == [(1, "x"), (2, "x"), (3, "x"), (4, "y"), (5, "x"), (6, "z"), (9, "x")]
    # Statistics show that the first file has no such keys; the second one could.
    assert len(opened) == (0 if chosen else 2)


def test_rows_move_to_the_partition_of_their_record(lake: Lake) -> None:
    said = {"options": "key: id, partition_by: v"}
    done(lake.merge(row(1, "a"), row(2, "a"), row(3, "b"), **said))
    done(lake.merge(row(2, "b"), row(4), **said))
    assert sorted(lake.rows(), key=lambda found: found[0]) == [(1, "a"), (2, "b"), (3, "b"), (4, None)]
    folders = {path.rpartition("/")[0] for path in lake.files()}
    assert folders == {"v=a", "v=b", "v=__HIVE_DEFAULT_PARTITION__"}
    # The column of the partition may be the key.
    done(lake.merge(row(7, "a"), options="key: v"))
    assert sorted(lake.rows(), key=lambda found: found[0]) == [(2, "b"), (3, "b"), (4, None), (7, "a")]


def test_files_of_odd_partitions_are_written_again(lake: Lake) -> None:
    texts = ["a/b=ü %", "..", "x:y", "%2F"]
    said = {"options": "key: id, partition_by: v"}
    done(lake.merge(*(row(at, texts[at // 2]) for at in range(8)), **said))
    done(lake.merge(*(row(at, texts[at // 2 - 1]) for at in range(0, 8, 2)), **said))
    assert lake.rows() == [(at, texts[at // 2 - (at + 1) % 2]) for at in range(8)]
    assert lake.left() == []


def test_sorted_records_are_merged(lake: Lake) -> None:
    write_deltalake(lake.path, pa.table({"id": range(10), "v": ["old"] * 10, "n": range(10)}))
    done(lake.merge(*(row(at, "new") for at in (9, 3, 12, 6)), more=", sort_order: [id]"))
    assert lake.rows() == [
        *((at, "new" if at in (3, 6, 9) else "old", at) for at in range(10)), (12, "new", None)
    ]  # fmt: skip


def test_keys_are_compared_as_the_table_has_them(lake: Lake, chosen: dict[str, Any]) -> None:
    chosen = {"tuning": replace(chosen.get("tuning", Tuning()), key_buckets=64)}
    amounts = pa.array([decimal.Decimal("1.10"), decimal.Decimal("2.00")], pa.decimal128(10, 2))
    moments = pa.array([0, 1_000_000], pa.timestamp("us", "UTC"))
    table = pa.table({"n": amounts, "t": moments, "d": pa.array([1, 2], pa.date32()), "b": [True, False]})
    write_deltalake(lake.path, table.append_column("v", pa.array(["old", "old"])))
    said = {"schema": "n: string, t: date_time, d: date, b: bool, v: string", "options": "key: [n, t, d, b]"}
    same = {"n": "1.1", "t": "1970-01-01T00:00:00", "d": "1970-01-02", "b": True, "v": "new"}
    done(lake.merge(same, {**same, "b": False, "v": "other"}, chosen=chosen, **said))
    assert sorted(found[-1] for found in lake.rows()) == ["new", "old", "other"]
    result = lake.merge(same, {**same, "n": "1.100"}, chosen=chosen, **said)
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "the records have the same key more than once: n = Decimal('1.10')" in result.error.message


def test_a_key_that_comes_twice_ends_the_run(
    lake: Lake, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.cut_by(monkeypatch, 100)
    done(lake.merge(row(1, "a"), chosen=chosen))
    result = lake.merge(
        row(2, "b"), *(row(at, "x" * 40) for at in range(10, 40)), row(2, "c"), nodes=BESIDE, chosen=chosen
    )
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "the records have the same key more than once: id = 2 (2 times)" in result.error.message
    assert "choose one record for each key by `distinct`" in result.error.message
    assert not (lake.folder / "out/lines.csv").exists()
    assert lake.rows() == [(1, "a")]
    write_deltalake(lake.path, pa.table({"id": [1], "v": ["z"]}), mode="append")
    result = lake.merge(row(1, "b"), chosen=chosen)
    assert "the table has the same key more than once: id = 1 (2 times)" in result.error.message
    assert lake.rows() == [(1, "a"), (1, "z")]
    assert lake.left() == []


def test_a_record_without_a_key_is_a_dead_letter(lake: Lake) -> None:
    result = lake.merge(row(1, "a"), {"v": "b"})
    assert result.exit_code == 2
    assert "column 'id': a record without a key is merged with none" in (lake.folder / "out/dead.csv").read_text()
    assert lake.rows() == [(1, "a")]


def test_a_group_of_records_is_merged_as_a_whole_or_not(lake: Lake) -> None:
    done(lake.merge(row(1, "g"), row(3, "h")))
    result = lake.merge(row(1, "g"), {"id": "x", "v": "g"}, row(3, "H"), nodes=BESIDE, source=", correlation_key: [v]")
    assert result.exit_code == 2
    assert lake.rows() == [(1, "g"), (3, "H")]
    assert (lake.folder / "out/lines.csv").read_text().splitlines()[1:] == ["3,H"]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"options": ""}, "`mode: merge` and `key` go together"),
        ({"options": "key: nid"}, "there is no column 'nid' to tell records apart"),
        ({"options": "key: id, delete_flag: nope"}, "there is no column 'nope'"),
        ({"options": "key: id, delete_flag: id"}, "'id' is written, and a flag is not"),
    ],
)
def test_options_are_checked_before_the_run(lake: Lake, said: dict[str, str], text: str) -> None:
    lake.prepare([row(1)], **said)
    with pytest.raises(Exception, match="E007") as raised:
        pipelines.run(lake.folder)
    assert text in str(raised.value)


def test_what_a_merge_cannot_keep_is_refused(lake: Lake) -> None:
    table = pa.table({"id": [1], "v": ["a"], "gone": [True]})
    flagged = {"schema": SCHEMA + ", gone: bool", "options": "key: id, delete_flag: gone"}
    write_deltalake(lake.path, table, configuration={"delta.enableChangeDataFeed": "true"})
    assert "the table has `delta.enableChangeDataFeed`" in lake.merge(row(1)).error.message
    shutil.rmtree(lake.path)
    write_deltalake(lake.path, table)
    assert "the table has a column 'gone'" in lake.merge(row(1), **flagged).error.message
    assert "is string: make it a Bool" in lake.merge(row(1), options="key: id, delete_flag: v").error.message
    result = lake.merge({"f": 1.5, "v": "a"}, schema="f: float, v: string", options="key: f, evolve: true")
    assert "column 'f' of `key` is double, which tells no records apart" in result.error.message
    assert lake.rows() == [(1, "a", True)]


def test_another_writer_is_seen(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    done(lake.merge(row(1, "a")))
    real = delta_commit.TableCommit.prepare

    def meanwhile(self: Any, home: Any) -> None:
        write_deltalake(lake.path, pa.table({"id": [9], "v": ["z"]}), mode="append")
        real(self, home)

    monkeypatch.setattr(delta_commit.TableCommit, "prepare", meanwhile)
    result = lake.merge(row(1, "b"), nodes=BESIDE)
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "somebody else has written version 1" in result.error.message
    assert lake.rows() == [(1, "a"), (9, "z")]
    assert not (lake.folder / "out/lines.csv").exists()
    assert lake.left() == []


def test_a_death_after_the_decision_is_completed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = (delta_commit.TableCommit, "is_completed"), (DeltaTable, "create_write_transaction")
    check_a_death_is_completed(lake, lake.merge, [str(lake.path)], monkeypatch, *commits)


def test_a_retry_merges_nothing_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    done(lake.merge(row(1, "a"), chosen={"once": ("etl", "monday")}))
    monkeypatch.setattr(executor, "_tables", None)  # nothing is looked at
    result = done(pipelines.run(lake.folder, force=True, once=("etl", "monday"), is_retry=True).result)
    assert result.taken_from
    assert DeltaTable(lake.path).version() == 0


def test_new_columns_come_with_merged_records(lake: Lake) -> None:
    done(lake.merge(row(1, "a"), row(2, "b")))
    done(lake.merge(row(2, "B", w="new"), schema=SCHEMA + ", w: string", options="key: id, evolve: true"))
    assert lake.rows()[1] == (2, "B", "new")
    assert lake.rows()[0] == (1, "a", None)


def test_columns_that_records_lack_may_have_any_name(lake: Lake, chosen: dict[str, Any]) -> None:
    names = ("part", "row", "gone", "at", "key 0", "kept 1")
    write_deltalake(lake.path, pa.table({"id": [1, 2], "v": ["a", "b"], **{name: [name, "l"] for name in names}}))
    done(lake.merge(row(1, "A"), row(3, "c"), chosen=chosen))
    assert lake.rows() == [(1, "A", *names), (2, "b", *"llllll"), (3, "c", *[None] * 6)]


def test_ints_are_keys_of_narrow_decimals(lake: Lake, chosen: dict[str, Any]) -> None:
    one = pa.array([decimal.Decimal("1.00")], pa.decimal128(5, 2))
    write_deltalake(lake.path, pa.table({"id": one, "v": ["a"]}))
    done(lake.merge(row(1, "A"), row(999, "b"), chosen=chosen))
    assert lake.rows() == [(decimal.Decimal(1), "A"), (decimal.Decimal(999), "b")]
    assert "has a value that is no decimal128(5, 2)" in lake.merge(row(1000), chosen=chosen).error.message


def test_a_table_that_somebody_makes_meanwhile_is_seen(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    real = deltalake.transaction.create_table_with_add_actions

    def slower(*arguments: Any, **wanted: Any) -> None:
        write_deltalake(lake.path, pa.table({"id": [9], "v": ["z"]}))
        real(*arguments, **wanted)

    monkeypatch.setattr(deltalake.transaction, "create_table_with_add_actions", slower)
    result = lake.merge(row(9, "b"))
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "somebody else has made the table" in result.error.message
    assert lake.rows() == [(9, "z")]
    assert lake.left() == []


def test_a_table_in_a_store_is_merged_into(lake: Lake, lake_bucket: AnyBucket) -> None:
    chosen = {"allow_absolute_paths": True}
    for rows in ([row(1, "a"), row(2, "b")], [row(2, "B"), row(3, "c")]):
        done(lake.merge(*rows, path=lake_bucket.uri("lake/sales"), chosen=chosen))
    from spark_jobs.formats.delta import log
    from spark_jobs.stores.settings import StoreSettings

    table = log.opened(lake_bucket.uri("lake/sales"), "t", StoreSettings().resolved())
    assert sorted(tuple(each.values()) for each in table.to_pyarrow_table().to_pylist()) == [
        (1, "a"),
        (2, "B"),
        (3, "c"),
    ]


@pytest.mark.spark
def test_tasks_of_spark_merge(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "200000")
    write_deltalake(lake.path, pa.table({"id": range(200_000), "v": ["old"] * 200_000, "kept": range(200_000)}))
    rows = [row(at, "new") for at in range(100_000, 300_000, 2)]
    lake.prepare(rows)
    command = [sys.executable, "-m", "spark_jobs", "run", str(tmp_path / "pipeline.yaml")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = DeltaTable(lake.path).to_pyarrow_table().sort_by("id")
    assert len(found) == 250_000
    new = range(100_000, 300_000, 2)
    for each in found.slice(99_990, 50).to_pylist():
        assert each["v"] == ("new" if each["id"] in new else "old")
        assert each["kept"] == each["id"]
    assert found.column("kept").null_count == 50_000
